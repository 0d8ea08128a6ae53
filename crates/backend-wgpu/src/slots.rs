//! The tensors of a shader: how each dtype lies in words, and the functions by which a shader reads
//! and writes elements.
//!
//! Of a slot `x` a shader gets `x_at(i)` (element i as a number of its class), `x_bits(i)` (its
//! bits), and where it is written `x_put(i, number)` and `x_put_bits(i, bits)`, and `x_put_pair(i,
//! number, next)`, which writes a whole word where elements i and i + 1 are one; `x_PER` elements
//! lie in a word. Elements of 16 and 8 bits share words. A shader that writes elements anywhere
//! (`Scattered`) changes its part of a word by atomic operations on integers, each bit by one
//! thread; one that owns whole words (`Words`) uses `x_put_word(w, word)`.
//!
//! A tensor larger than a binding may be is bound as several windows; its functions then find the
//! window of a word. A shader knows nothing of that.

use crate::names::SlotName;
use crate::shaders::Class;
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
    /// Reads elements of up to 32 bits four at a time: `x_vec4(i)`, of floats, which is
    /// `x_of_words(x_words(i))`.
    Vec4,
    /// The same of f16, for cooperative matrices: `x_f16(i)`.
    Half,
    /// Written by cooperative matrices of f32, as `x`.
    Sums,
    /// Writes such elements four at a time: `x_put_vec4_bits(i, bits)`, `x_put_words(i, words)` as
    /// they lie in memory, and `x_put_vec4(i, four)` of floats, each by one thread, which may read
    /// what it holds.
    Vec4Written,
}

impl Access {
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Access::Read | Access::Vec4 | Access::Half)
    }

    /// Whether the tensor is declared as an array of vec4.
    fn by_vec4(self) -> bool {
        matches!(self, Access::Vec4 | Access::Half | Access::Vec4Written)
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
    I16,
    I8,
    U64,
    U32,
    U16,
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
            DType::I16 => Store::I16,
            DType::U64 => Store::U64,
            DType::U32 => Store::U32,
            DType::U16 => Store::U16,
            DType::I8 => Store::I8,
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
            Store::F16 | Store::BF16 | Store::I16 | Store::U16 | Store::Bits16 => 2,
            Store::I8 | Store::U8 | Store::Bool => 4,
            _ => 1,
        }
    }

    /// The arithmetic of its elements.
    pub(crate) fn class(self) -> Class {
        match self {
            Store::F32 | Store::F16 | Store::BF16 => Class::Float,
            // Narrow integers are computed in 32 bits, of which the low ones are stored: they wrap
            // there.
            Store::I32 | Store::I16 | Store::I8 => Class::Int,
            Store::I64 => Class::Wide,
            Store::U32 | Store::U16 => Class::Unsigned,
            Store::U64 => Class::WideUnsigned,
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
            Store::I64 | Store::U64 => ("vec2<u32>", "bits", "v"),
            Store::U16 => ("u32", "bits", "(v & 0xffffu)"),
            Store::I16 => ("i32", "(bitcast<i32>(bits << 16u) >> 16u)", "(bitcast<u32>(v) & 0xffffu)"),
            Store::I8 => ("i32", "(bitcast<i32>(bits << 24u) >> 24u)", "(bitcast<u32>(v) & 0xffu)"),
            Store::U32 | Store::U8 | Store::Bool => ("u32", "bits", "v"),
            _ => return None,
        })
    }
}

/// A tensor of a shader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub(crate) name: SlotName,
    pub(crate) store: Store,
    pub(crate) access: Access,
    /// Bindings that the tensor takes, one behind the other: more than one where it is larger than
    /// a binding may be.
    pub(crate) windows: u32,
    /// The slot before it whose bindings it reads through: of two that would bind the same windows.
    pub(crate) like: Option<SlotName>,
}

impl Slot {
    pub(crate) fn new(name: SlotName, store: Store, access: Access) -> Slot {
        Slot { name, store, access, windows: 1, like: None }
    }

    /// Bindings of its own.
    pub(crate) fn own_windows(&self) -> u32 {
        if self.like.is_some() { 0 } else { self.windows }
    }

    /// Whether its windows may be those of `other`, if they are the same memory: both are read, by
    /// words of one type.
    pub(crate) fn may_be_like(&self, other: &Slot) -> bool {
        let read = |slot: &Slot| slot.access == Access::Read && slot.store != Store::Atomic;
        read(self) && read(other) && self.bits() == other.bits()
    }

    /// Whether its memory is bound for writing.
    pub(crate) fn writable(&self) -> bool {
        self.access.writes() || self.store == Store::Atomic
    }

    /// Whether its words are changed by atomic operations.
    fn atomic(&self) -> bool {
        self.store == Store::Atomic || (self.access == Access::Scattered && self.store.per_word() > 1)
    }

    /// The type of a word's value, or of the words of four elements.
    fn bits(&self) -> &'static str {
        self.bits_and_bytes().0
    }

    /// That type, and its bytes.
    fn bits_and_bytes(&self) -> (&'static str, u64) {
        match (self.access, self.store) {
            (Access::Half, _) => ("vec4<f16>", 8),
            (Access::Sums, _) => ("f32", 4),
            (access, store) if access.by_vec4() => {
                [("vec4<u32>", 16), ("vec2<u32>", 8), ("u32", 4)][store.per_word() / 2]
            }
            (_, Store::I64 | Store::U64) => ("vec2<u32>", 8),
            _ => ("u32", 4),
        }
    }

    /// The type of an element's bits.
    fn element_bits(&self) -> &'static str {
        if self.access.by_vec4() { "u32" } else { self.bits() }
    }

    /// The declaration of the slot, whose first binding has this number, and of its functions.
    /// `window_bytes` is a power of two.
    pub(crate) fn declare(&self, binding: usize, window_bytes: u64, text: &mut String) {
        self.declare_bindings(binding, text);
        if self.windows > 1 {
            self.declare_windows(window_bytes, text);
        }
        if self.store == Store::Atomic {
            let (name, larger) = (self.name.wgsl(), self.stored("atomicMax", "i", "v"));
            let _ = writeln!(text, "fn {name}_max(i: u32, v: u32) {{ {larger} }}");
            return;
        }
        if self.access == Access::Sums {
            return;
        }
        if self.access.by_vec4() {
            return self.declare_vec4(text);
        }
        self.declare_reads(text);
        match self.access {
            Access::Scattered => self.declare_scattered(text),
            Access::Words => self.declare_words(text),
            _ => {}
        }
        self.declare_numbers(text);
    }

    fn declare_bindings(&self, binding: usize, text: &mut String) {
        let Slot { store, .. } = *self;
        let name = self.name.wgsl();
        let word = if self.atomic() { "atomic<u32>" } else { self.bits() };
        let mode = if self.writable() { "read_write" } else { "read" };
        for window in 0..self.own_windows() {
            let array = window_name(name, window);
            let at = binding + window as usize;
            let _ = writeln!(text, "@group(0) @binding({at}) var<storage, {mode}> {array}: array<{word}>;");
        }
        let per = store.per_word();
        let bits = self.element_bits();
        let _ = writeln!(text, "const {name}_PER: u32 = {per}u;\nalias {name}_BITS = {bits};");
    }

    /// Functions that find the window of a word, for a tensor of several: `x_load(w)`, and
    /// `x_store(w, v)` or the atomic operations.
    fn declare_windows(&self, window_bytes: u64, text: &mut String) {
        let (name, array) = (self.name.wgsl(), self.like.unwrap_or(self.name).wgsl());
        let bits = self.bits();
        let words = window_bytes / self.bits_and_bytes().1;
        let (shift, mask) = (words.trailing_zeros(), words - 1);
        let mut function = |head: &str, statement: &dyn Fn(&str) -> String| {
            let _ = write!(text, "fn {name}_{head} {{ let i = w & {mask}u; switch (w >> {shift}u) {{ ");
            for window in 0..self.windows {
                let case =
                    if window + 1 == self.windows { "default".into() } else { format!("case {window}u") };
                let _ = write!(text, "{case}: {{ {} }} ", statement(&window_name(array, window)));
            }
            text.push_str("} }\n");
        };
        if !self.atomic() {
            function(&format!("load(w: u32) -> {bits}"), &|array| format!("return {array}[i];"));
            if self.access.writes() && self.access != Access::Shared {
                function(&format!("store(w: u32, v: {bits})"), &|array| format!("{array}[i] = v;"));
            }
            return;
        }
        function("load(w: u32) -> u32", &|array| format!("return atomicLoad(&{array}[i]);"));
        for operation in ["atomicAnd", "atomicOr", "atomicMax", "atomicStore"] {
            let head = format!("{operation}(w: u32, v: u32)");
            function(&head, &|array| format!("{operation}(&{array}[i], v);"));
        }
    }

    /// The value of word `w`.
    fn loaded(&self, w: &str) -> String {
        let name = self.name.wgsl();
        match (self.windows, self.atomic()) {
            (1, false) => format!("{name}[{w}]"),
            (1, true) => format!("atomicLoad(&{name}[{w}])"),
            _ => format!("{name}_load({w})"),
        }
    }

    /// The statement that changes word `w` by an atomic operation, or sets it where its words are
    /// not changed by those.
    fn stored(&self, operation: &str, w: &str, value: &str) -> String {
        let name = self.name.wgsl();
        match (self.windows, self.atomic()) {
            (1, false) => format!("{name}[{w}] = {value};"),
            (1, true) => format!("{operation}(&{name}[{w}], {value});"),
            (_, false) => format!("{name}_store({w}, {value});"),
            (_, true) => format!("{name}_{operation}({w}, {value});"),
        }
    }

    fn declare_reads(&self, text: &mut String) {
        let (name, bits) = (self.name.wgsl(), self.bits());
        let read = match self.store.per_word() {
            1 => self.loaded("i"),
            2 => format!("({} >> ((i & 1u) * 16u)) & 0xffffu", self.loaded("i >> 1u")),
            _ => format!("({} >> ((i & 3u) * 8u)) & 0xffu", self.loaded("i >> 2u")),
        };
        let _ = writeln!(text, "fn {name}_bits(i: u32) -> {bits} {{ return {read}; }}");
    }

    fn declare_scattered(&self, text: &mut String) {
        let (name, bits) = (self.name.wgsl(), self.bits());
        let put = match self.store.per_word() {
            1 => self.stored("atomicStore", "i", "b"),
            per => {
                let (places, width, ones) = if per == 2 { (1, 16, "0xffffu") } else { (3, 8, "0xffu") };
                let clear = self.stored("atomicAnd", "w", &format!("~({ones} << s)"));
                let set = self.stored("atomicOr", "w", &format!("(b & {ones}) << s"));
                format!("let s = (i & {places}u) * {width}u; let w = i / {per}u; {clear} {set}")
            }
        };
        let _ = writeln!(text, "fn {name}_put_bits(i: u32, b: {bits}) {{ {put} }}");
    }

    fn declare_words(&self, text: &mut String) {
        let (name, bits) = (self.name.wgsl(), self.bits());
        let (put, read) = (self.stored("atomicStore", "w", "word"), self.loaded("w"));
        let _ = writeln!(text, "fn {name}_put_word(w: u32, word: {bits}) {{ {put} }}");
        let _ = writeln!(text, "fn {name}_word(w: u32) -> {bits} {{ return {read}; }}");
    }

    /// Functions of vec4, and of the elements in them.
    fn declare_vec4(&self, text: &mut String) {
        let (name, bits) = (self.name.wgsl(), self.bits());
        if self.access == Access::Half {
            let word = self.loaded("i");
            let _ = writeln!(text, "fn {name}_f16(i: u32) -> {bits} {{ return {word}; }}");
            let _ =
                writeln!(text, "fn {name}_at(i: u32) -> f32 {{ return f32({name}_f16(i / 4u)[i % 4u]); }}");
            return;
        }
        let (four, word) = (self.loaded("i"), self.loaded("i / 4u"));
        let (element, apart, together) = match self.store.per_word() {
            1 => (format!("{word}[i % 4u]"), "w", "v"),
            2 => (
                format!("({word}[i / 2u % 2u] >> (i % 2u * 16u)) & 0xffffu"),
                "vec4<u32>(w.x & 0xffffu, w.x >> 16u, w.y & 0xffffu, w.y >> 16u)",
                "vec2<u32>((v.x & 0xffffu) | (v.y << 16u), (v.z & 0xffffu) | (v.w << 16u))",
            ),
            _ => (
                format!("({word} >> (i % 4u * 8u)) & 0xffu"),
                "(vec4<u32>(w) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(0xffu)",
                "(v.x & 0xffu) | ((v.y & 0xffu) << 8u) | ((v.z & 0xffu) << 16u) | (v.w << 24u)",
            ),
        };
        let _ = writeln!(text, "fn {name}_bits(i: u32) -> u32 {{ return {element}; }}");
        let _ = writeln!(
            text,
            "alias {name}_WORDS = {bits};\nfn {name}_words(i: u32) -> {bits} {{ return {four}; }}"
        );
        let _ = writeln!(text, "fn {name}_bits_of_words(w: {bits}) -> vec4<u32> {{ return {apart}; }}");
        let _ = writeln!(
            text,
            "fn {name}_vec4_bits(i: u32) -> vec4<u32> {{ return {name}_bits_of_words({name}_words(i)); }}"
        );
        if self.access.writes() {
            let stored = self.stored("", "i", together);
            let _ = writeln!(text, "fn {name}_put_vec4_bits(i: u32, v: vec4<u32>) {{ {stored} }}");
            let stored = self.stored("", "i", "w");
            let _ = writeln!(text, "fn {name}_put_words(i: u32, w: {bits}) {{ {stored} }}");
        }
        self.declare_numbers(text);
        if self.store.class() == Class::Float {
            self.declare_float_vec4(text);
        }
    }

    fn declare_float_vec4(&self, text: &mut String) {
        let (name, writes) = (self.name.wgsl(), self.access.writes());
        let number = |bits: &str| format!("{name}_number({bits})");
        let parts = ["x", "y", "z", "w"];
        let numbers = parts.map(|part| number(&format!("b.{part}"))).join(", ");
        let rounded = parts.map(|part| format!("{name}_rounded(v.{part})")).join(", ");
        let words = self.bits();
        let _ = writeln!(
            text,
            "fn {name}_of_words(w: {words}) -> vec4<f32> {{ let b = {name}_bits_of_words(w); return vec4<f32>({numbers}); }}"
        );
        let _ = writeln!(
            text,
            "fn {name}_vec4(i: u32) -> vec4<f32> {{ return {name}_of_words({name}_words(i)); }}"
        );
        if writes {
            let _ = writeln!(
                text,
                "fn {name}_put_vec4(i: u32, v: vec4<f32>) {{ {name}_put_vec4_bits(i, vec4<u32>({rounded})); }}"
            );
        }
    }

    /// Functions of numbers, where elements are any.
    fn declare_numbers(&self, text: &mut String) {
        let (name, bits) = (self.name.wgsl(), self.element_bits());
        let Some((number, from, to)) = self.store.conversions() else { return };
        let _ = writeln!(text, "fn {name}_number(bits: {bits}) -> {number} {{ return {from}; }}");
        let _ =
            writeln!(text, "fn {name}_at(i: u32) -> {number} {{ return {name}_number({name}_bits(i)); }}");
        let _ = writeln!(text, "fn {name}_rounded(v: {number}) -> {bits} {{ return {to}; }}");
        if self.access != Access::Scattered {
            return;
        }
        let _ =
            writeln!(text, "fn {name}_put(i: u32, v: {number}) {{ {name}_put_bits(i, {name}_rounded(v)); }}");
        let both = format!("{name}_put(i, v); {name}_put(i + 1u, w);");
        let pair = match self.store.per_word() {
            2 => {
                let word = format!("({name}_rounded(v) & 0xffffu) | ({name}_rounded(w) << 16u)");
                let whole = self.stored("atomicStore", "i >> 1u", &word);
                format!("if ((i & 1u) == 0u) {{ {whole} }} else {{ {both} }}")
            }
            _ => both,
        };
        let _ = writeln!(text, "fn {name}_put_pair(i: u32, v: {number}, w: {number}) {{ {pair} }}");
    }
}

/// What a window of a slot is called: the first has the slot's name.
fn window_name(name: &str, window: u32) -> String {
    if window == 0 { name.into() } else { format!("{name}_window_{window}") }
}
