//! The tests that compare more than the op table does, in one program that shares most of their
//! code. `cargo xtask bundle --device wgpu` includes it.

#[path = "../attention.rs"]
mod attention;
#[path = "../elementwise_vec4.rs"]
mod elementwise_vec4;
#[path = "../limits.rs"]
mod limits;
#[path = "../long_rows.rs"]
mod long_rows;
#[path = "../many_elements.rs"]
mod many_elements;
#[path = "../process_end.rs"]
mod process_end;
#[path = "../products.rs"]
mod products;
#[path = "../random.rs"]
mod random;
#[path = "../rows_vec4.rs"]
mod rows_vec4;
#[path = "../timer.rs"]
mod timer;
#[path = "../windows.rs"]
mod windows;
