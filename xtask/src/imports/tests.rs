//! Imports of small crates that are written for a test.

use super::graph::Graph;
use super::picture::{Group, Label, svg};
use super::resolve::{Imports, imports};
use super::source::Source;
use super::{TABLE_END, TABLE_START, with_table};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A crate in the temporary folder.
struct Written {
    folder: PathBuf,
    source: Source,
    imports: Imports,
}

impl Written {
    /// Files and their texts; the first is the root.
    fn new(test: &str, files: &[(&str, &str)]) -> Written {
        let folder = std::env::temp_dir().join(format!("ternion-imports-{}-{test}", std::process::id()));
        for (file, text) in files {
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().expect("a folder"))
                .expect("the temporary folder can be written");
            std::fs::write(path, text).expect("writes");
        }
        let source = Source::read(&folder.join(files[0].0)).expect("reads");
        let externs = ["other", "third"].map(String::from).into();
        let imports = imports(&source, &externs);
        Written { folder, source, imports }
    }

    /// `from -> to` for every edge between files.
    fn edges(&self) -> Vec<String> {
        let name = |index: usize| self.source.files[index].display().to_string();
        let edges = self.imports.files.edges.iter().enumerate();
        let mut edges: Vec<String> = edges
            .flat_map(|(from, to)| to.iter().map(move |&to| (from, to)))
            .map(|(from, to)| format!("{} -> {}", name(from), name(to)))
            .collect();
        edges.sort();
        edges
    }

    fn cycles(&self) -> Vec<Vec<String>> {
        let name = |&index: &usize| self.source.files[index].display().to_string();
        self.imports.files.cycles().iter().map(|cycle| cycle.iter().map(name).collect()).collect()
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // If that fails, the folder stays in the temporary folder and causes no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn imports_lead_to_where_an_item_is_defined() {
    let written = Written::new(
        "items",
        &[
            ("lib.rs", "mod a;\nmod b;\nmod deep;\npub use a::A;\npub fn run() { b::go() }\n"),
            ("a.rs", "pub struct A;\npub const SIZE: usize = 1;\n"),
            ("b.rs", "use crate::A;\nuse crate::deep::{self, inner::Inner as I};\npub fn go() {}\n"),
            ("deep/mod.rs", "pub mod inner;\npub use inner::Inner;\n"),
            (
                "deep/inner.rs",
                "pub struct Inner([u8; super::super::a::SIZE]);\nmacro_rules! m { () => { $crate::b::go() } }\n",
            ),
        ],
    );
    // `lib.rs -> a.rs` and `deep/mod.rs -> deep/inner.rs` are re-exports, which need nothing.
    let expected = [
        "b.rs -> a.rs",
        "b.rs -> deep/inner.rs",
        "b.rs -> deep/mod.rs",
        "deep/inner.rs -> a.rs",
        "deep/inner.rs -> b.rs",
        "lib.rs -> b.rs",
    ];
    assert_eq!(written.edges(), expected);
    assert!(!written.cycles().is_empty(), "b -> deep/inner -> b");
}

#[test]
fn a_reexport_counts_where_its_name_is_used() {
    let written = Written::new(
        "reexports",
        &[
            (
                "lib.rs",
                "mod a;\nmod b;\npub use a::A;\npub use b::B;\npub fn make() -> A { A }\npub use other::Thing;\n",
            ),
            ("a.rs", "pub struct A;\n"),
            ("b.rs", "pub struct B;\n"),
        ],
    );
    assert_eq!(written.edges(), ["lib.rs -> a.rs"]);
    assert_eq!(
        written.imports.crates,
        BTreeSet::from(["other".to_string()]),
        "a crate is needed all the same"
    );
}

#[test]
fn what_only_tests_see_does_not_count() {
    let written = Written::new(
        "tests",
        &[
            (
                "lib.rs",
                "mod a;\nmod b;\n#[cfg(test)]\nmod tests;\n#[cfg(all(test, unix))]\nuse crate::b::B;\n\
                 #[cfg(not(test))]\nuse crate::a::A;\nfn f() {\n    #[cfg(test)]\n    let b = crate::b::B;\n}\n\
                 #[test]\nfn g() { third::call() }\n",
            ),
            ("a.rs", "pub struct A;\n#[cfg(test)]\nmod tests { use crate::b::B; }\n"),
            ("b.rs", "pub struct B;\n"),
        ],
    );
    assert_eq!(written.edges(), ["lib.rs -> a.rs"]);
    assert_eq!(written.source.files.len(), 3, "tests.rs is not even looked for");
    assert!(written.imports.crates.is_empty());
}

#[test]
fn a_cycle_is_found_with_all_its_files() {
    let written = Written::new(
        "cycle",
        &[
            ("lib.rs", "mod call;\nmod ops;\nmod select;\npub fn run() { select::select() }\n"),
            ("call.rs", "pub struct Call;\n"),
            (
                "select.rs",
                "use crate::ops::{add, mul};\npub struct Launcher;\npub fn select() { add::run(); mul::run() }\n",
            ),
            ("ops/mod.rs", "pub mod add;\npub mod mul;\n"),
            ("ops/add.rs", "use crate::select::Launcher;\nuse crate::call::Call;\npub fn run() {}\n"),
            (
                "ops/mul.rs",
                "use super::add;\nuse crate::select::*;\npub fn run() { add::run(); let l = Launcher; }\n",
            ),
        ],
    );
    assert_eq!(written.cycles(), [["ops/add.rs", "ops/mul.rs", "select.rs"]]);
    let upward = written.imports.files.upward();
    assert!((1..=2).contains(&upward.len()), "{upward:?}: without them nothing is left of the cycle");
    let mut rest = written.imports.files.clone();
    upward.iter().for_each(|(from, to)| assert!(rest.edges[*from].remove(to)));
    assert!(rest.cycles().is_empty());
}

#[test]
fn macros_that_write_code_for_others_import_nothing() {
    let written = Written::new(
        "quotes",
        &[("lib.rs", "fn f() { quote! { other::Thing }; println!(\"{}\", third::NAME) }\n")],
    );
    assert_eq!(written.imports.crates, BTreeSet::from(["third".to_string()]));
}

fn graph(nodes: usize, edges: &[(usize, usize)]) -> Graph {
    let mut graph = Graph::new(nodes);
    edges.iter().for_each(|&(from, to)| graph.add(from, to));
    graph
}

#[test]
fn levels_and_cycles_of_a_graph() {
    let graph = graph(6, &[(0, 1), (1, 2), (2, 1), (2, 3), (4, 5), (5, 4), (0, 0)]);
    assert_eq!(graph.cycles(), [[1, 2], [4, 5]]);
    assert_eq!(graph.upward().len(), 2);
    assert_eq!((graph.levels()[3], graph.levels()[0]), (0, 3));
}

#[test]
fn a_long_path_does_not_recurse() {
    let edges: Vec<(usize, usize)> = (0..2000).map(|node| (node, (node + 1) % 2000)).collect();
    assert_eq!(graph(2000, &edges).cycles()[0].len(), 2000);
}

#[test]
fn edges_that_a_longer_path_implies_are_not_drawn() {
    let reduced = graph(4, &[(0, 1), (1, 2), (0, 2), (0, 3)]).reduced();
    assert_eq!(reduced, graph(4, &[(0, 1), (1, 2), (0, 3)]));
}

#[test]
fn no_two_boxes_of_the_picture_overlap() {
    let graph = graph(7, &[(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4), (0, 5), (5, 6), (6, 4)]);
    let label = |node: usize| Label {
        title: format!("crate-{node}"),
        subtitle: "folder".into(),
        group: Group::Library,
    };
    let labels: Vec<Label> = (0..7).map(label).collect();
    let picture = svg(&graph, &labels);
    let number = |text: &str, name: &str| -> f64 {
        let value = text.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        value.and_then(|value| value.parse().ok()).expect("a number")
    };
    let boxes: Vec<[f64; 4]> = picture
        .lines()
        .filter(|line| line.contains("rx=\"6\""))
        .map(|line| ["x", "y", "width", "height"].map(|name| number(line, &format!(" {name}"))))
        .collect();
    assert_eq!(boxes.len(), 7);
    for (index, a) in boxes.iter().enumerate() {
        for b in &boxes[index + 1..] {
            let apart = |axis: usize| a[axis] + a[axis + 2] <= b[axis] || b[axis] + b[axis + 2] <= a[axis];
            assert!(apart(0) || apart(1), "{a:?} and {b:?}");
        }
    }
    assert_eq!(picture.matches("marker-end").count(), 9);
    assert_eq!(picture, svg(&graph, &labels), "the same every time");
}

#[test]
fn the_table_replaces_the_text_between_its_markers() {
    let page = format!("before\n{TABLE_START}old\n{TABLE_END}\nafter\n");
    let expected = format!("before\n{TABLE_START}new\n{TABLE_END}\nafter\n");
    assert_eq!(with_table(&page, "new\n"), Ok(expected));
    assert!(with_table("no markers", "new\n").is_err_and(|text| text.contains("imports:start")));
}
