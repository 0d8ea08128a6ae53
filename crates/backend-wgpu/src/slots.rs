//! The tensors of a shader: how each dtype lies in words, and the functions by which a shader reads and writes elements.
//!
//! Of a slot `x` a shader gets `x_at(i)` (element i as a number of its class), `x_bits(i)` (its bits), and where it is written `x_put(i, number)` and
//! `x_put_bits(i, bits)`, and `x_put_pair(i, number, next)`, which writes a whole word where elements i and i + 1 are one; `x_PER` elements lie in a word. 16-bit floats and bytes share words. A shader that writes elements anywhere (`Scattered`)
//! changes its part of a word by atomic operations on integers, each bit by one thread; one that owns whole words (`Words`) uses `x_put_word(w, word)`.

use crate::linker::Class;
use std::fmt::Write;
use ternion_core::DType;

/// What a shader does with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    Read,
    /// Reads, of memory that the same launch writes through another slot, too.
    Shared,
    /// Writes elements anywhere.
    Scattered,
    /// Writes whole words, each by one thread, which may read what it holds.
    Words,
}

impl Access {
    pub(crate) fn writes(self) -> bool {
        self != Access::Read
    }
}

/// How elements lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Store {
    F32,
    F16,
    BF16,
    I32,
    I64,
    U8,
    Bool,
    /// Two bytes that nobody computes with.
    Bits16,
    /// Words of a shader's own.
    Word,
    /// Words that threads count and mark in.
    Atomic,
}

impl Store {
    /// How `dtype` lies; 64-bit floats have no place here.
    pub(crate) fn of(dtype: DType) -> Store {
        match dtype {
            DType::F32 => Store::F32,
            DType::F16 => Store::F16,
            DType::BF16 => Store::BF16,
            DType::I32 => Store::I32,
            DType::I64 | DType::F64 => Store::I64,
            DType::U8 => Store::U8,
            DType::Bool => Store::Bool,
        }
    }

    /// For elements that are only moved.
    pub(crate) fn bits_of(dtype: DType) -> Store {
        match dtype.size() {
            8 => Store::I64,
            4 => Store::Word,
            2 => Store::Bits16,
            _ => Store::U8,
        }
    }

    /// Elements in a word; 64-bit ones have a double word to themselves.
    pub(crate) fn per_word(self) -> usize {
        match self {
            Store::F16 | Store::BF16 | Store::Bits16 => 2,
            Store::U8 | Store::Bool => 4,
            _ => 1,
        }
    }

    /// The arithmetic of its elements.
    pub(crate) fn class(self) -> Class {
        match self {
            Store::F32 | Store::F16 | Store::BF16 => Class::Float,
            Store::I32 => Class::Int,
            Store::I64 => Class::Wide,
            _ => Class::Byte,
        }
    }

    /// Number from bits, and bits from a number `v`.
    fn conversions(self) -> Option<(&'static str, &'static str, &'static str)> {
        Some(match self {
            Store::F32 => ("f32", "bitcast<f32>(bits)", "bitcast<u32>(v)"),
            Store::F16 => ("f32", "f16_to_f32(bits)", "f32_to_f16(v)"),
            Store::BF16 => ("f32", "bf16_to_f32(bits)", "f32_to_bf16(v)"),
            Store::I32 => ("i32", "bitcast<i32>(bits)", "bitcast<u32>(v)"),
            Store::I64 => ("vec2<u32>", "bits", "v"),
            Store::U8 | Store::Bool => ("u32", "bits", "v"),
            _ => return None,
        })
    }
}

/// A tensor of a shader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub(crate) name: &'static str,
    pub(crate) store: Store,
    pub(crate) access: Access,
}

impl Slot {
    /// The declaration of the slot and of its functions.
    pub(crate) fn declare(&self, binding: usize, text: &mut String) {
        let Slot { name, store, access } = *self;
        let atomic = store == Store::Atomic || (access == Access::Scattered && store.per_word() > 1);
        let word = match store {
            Store::I64 => "vec2<u32>",
            _ if atomic => "atomic<u32>",
            _ => "u32",
        };
        let mode = if access.writes() || atomic { "read_write" } else { "read" };
        let per = store.per_word();
        let _ = writeln!(
            text,
            "@group(0) @binding({binding}) var<storage, {mode}> {name}: array<{word}>;\nconst {name}_PER: u32 = {per}u;"
        );
        if store == Store::Atomic {
            return;
        }
        let bits = if store == Store::I64 { "vec2<u32>" } else { "u32" };
        let at = |i: &str| if atomic { format!("atomicLoad(&{name}[{i}])") } else { format!("{name}[{i}]") };
        let _ = match per {
            1 => writeln!(text, "fn {name}_bits(i: u32) -> {bits} {{ return {}; }}", at("i")),
            2 => writeln!(
                text,
                "fn {name}_bits(i: u32) -> u32 {{ return ({} >> ((i & 1u) * 16u)) & 0xffffu; }}",
                at("i >> 1u")
            ),
            _ => writeln!(
                text,
                "fn {name}_bits(i: u32) -> u32 {{ return ({} >> ((i & 3u) * 8u)) & 0xffu; }}",
                at("i >> 2u")
            ),
        };
        let _ = writeln!(text, "alias {name}_BITS = {bits};");
        if access == Access::Scattered {
            let (shift, mask) =
                if per == 2 { ("(i & 1u) * 16u", "0xffffu") } else { ("(i & 3u) * 8u", "0xffu") };
            let _ = match per {
                1 => writeln!(text, "fn {name}_put_bits(i: u32, b: {bits}) {{ {name}[i] = b; }}"),
                _ => writeln!(
                    text,
                    "fn {name}_put_bits(i: u32, b: u32) {{ let s = {shift}; atomicAnd(&{name}[i / {per}u], ~({mask} << s)); \
                     atomicOr(&{name}[i / {per}u], (b & {mask}) << s); }}"
                ),
            };
        }
        if access == Access::Words {
            let _ = writeln!(
                text,
                "fn {name}_put_word(w: u32, word: {bits}) {{ {name}[w] = word; }}\nfn {name}_word(w: u32) -> {bits} {{ return {name}[w]; }}"
            );
        }
        if let Some((number, from, to)) = store.conversions() {
            let _ = writeln!(text, "fn {name}_number(bits: {bits}) -> {number} {{ return {from}; }}");
            let _ = writeln!(
                text,
                "fn {name}_at(i: u32) -> {number} {{ return {name}_number({name}_bits(i)); }}"
            );
            let _ = writeln!(text, "fn {name}_rounded(v: {number}) -> {bits} {{ return {to}; }}");
            if access == Access::Scattered {
                let _ = writeln!(
                    text,
                    "fn {name}_put(i: u32, v: {number}) {{ {name}_put_bits(i, {name}_rounded(v)); }}"
                );
                let both = format!("{name}_put(i, v); {name}_put(i + 1u, w);");
                let pair = match per {
                    2 => format!(
                        "if ((i & 1u) == 0u) {{ atomicStore(&{name}[i >> 1u], ({name}_rounded(v) & 0xffffu) | ({name}_rounded(w) << 16u)); }} \
                         else {{ {both} }}"
                    ),
                    _ => both,
                };
                let _ = writeln!(text, "fn {name}_put_pair(i: u32, v: {number}, w: {number}) {{ {pair} }}");
            }
        }
    }
}
