//! The tensors of a shader: how the elements of each dtype are stored in words, and the functions
//! with which a shader reads and writes elements.
//!
//! A word is a u32, or a `vec2<u32>` for elements of 64 bits. Elements of 16 and 8 bits share
//! words. A number is an element in its arithmetic type, in which the shader computes: f32, i32,
//! u32, or `vec2<u32>` for 64-bit integers.
//!
//! For a slot `x`, a shader has `x_at(i)` (element i as a number) and `x_bits(i)` (its bits). If
//! the slot is written, it also has `x_put(i, number)`, `x_put_bits(i, bits)`, and
//! `x_put_pair(i, number, next)`, which writes a whole word if elements i and i + 1 share one.
//! `x_PER` is the number of elements per word. A shader that writes elements in any order
//! (`Scattered`) changes the bits of an element in its word with atomic integer operations, and
//! each bit is written by one thread. A shader whose threads own whole words (`Words`) uses
//! `x_put_word(w, word)`.
//!
//! A tensor that exceeds the maximum size of a binding is bound as several windows. Its functions
//! then select the window of a word, and the rest of the shader stays the same.

use crate::names::SlotName;
use crate::shaders::Class;
use std::fmt::Write;
use ternion_core::DType;

/// How a shader accesses a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    Read,
    /// Reads memory that the same launch also writes through another slot: declared read_write, but
    /// only read.
    ReadAliased,
    /// Writes elements in any order.
    Scattered,
    /// Writes whole words, each by one thread, which may also read the word.
    Words,
    /// Reads elements of up to 32 bits as vec4: `x_vec4(i)` returns floats, and equals
    /// `x_of_words(x_words(i))`.
    ReadVec4,
    /// Like `ReadVec4`, for f16 elements of cooperative matrices: `x_f16(i)`.
    ReadHalfVec4,
    /// An array `x` of f32, to which cooperative matrices are stored.
    CooperativeAccumulator,
    /// Writes elements of up to 32 bits as vec4: `x_put_vec4_bits(i, bits)`, `x_put_words(i,
    /// words)` in their memory format, and `x_put_vec4(i, v)` for floats. Each vec4 is written by
    /// one thread, which may also read it.
    WriteVec4,
}

impl Access {
    /// Returns whether the access requires a binding that is declared read_write.
    pub(crate) fn binds_read_write(self) -> bool {
        !matches!(self, Access::Read | Access::ReadVec4 | Access::ReadHalfVec4)
    }

    /// Returns whether the tensor is declared as an array of vec4.
    fn is_vec4(self) -> bool {
        matches!(self, Access::ReadVec4 | Access::ReadHalfVec4 | Access::WriteVec4)
    }
}

/// How elements are stored in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StorageFormat {
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
    /// Two bytes that are only copied.
    Raw16,
    /// Words that are internal to a shader.
    RawWord,
    /// Words that threads use for atomic counters and marks.
    Atomic,
}

impl StorageFormat {
    /// Returns how `dtype` is stored. 64-bit floats are unsupported: `select` rejects them.
    pub(crate) fn of(dtype: DType) -> StorageFormat {
        match dtype {
            DType::F32 => StorageFormat::F32,
            DType::F16 => StorageFormat::F16,
            DType::BF16 => StorageFormat::BF16,
            DType::I32 => StorageFormat::I32,
            DType::I64 | DType::F64 => StorageFormat::I64,
            DType::I16 => StorageFormat::I16,
            DType::U64 => StorageFormat::U64,
            DType::U32 => StorageFormat::U32,
            DType::U16 => StorageFormat::U16,
            DType::I8 => StorageFormat::I8,
            DType::U8 => StorageFormat::U8,
            DType::Bool => StorageFormat::Bool,
        }
    }

    /// Returns the storage for elements that are only copied.
    pub(crate) fn bits_of(dtype: DType) -> StorageFormat {
        match dtype.size() {
            8 => StorageFormat::I64,
            4 => StorageFormat::RawWord,
            2 => StorageFormat::Raw16,
            _ => StorageFormat::U8,
        }
    }

    /// Returns the number of elements in a word. A 64-bit element has its own word.
    pub(crate) fn per_word(self) -> usize {
        match self {
            StorageFormat::F16
            | StorageFormat::BF16
            | StorageFormat::I16
            | StorageFormat::U16
            | StorageFormat::Raw16 => 2,
            StorageFormat::I8 | StorageFormat::U8 | StorageFormat::Bool => 4,
            _ => 1,
        }
    }

    /// Returns the class of the arithmetic type of its elements.
    pub(crate) fn class(self) -> Class {
        match self {
            StorageFormat::F32 | StorageFormat::F16 | StorageFormat::BF16 => Class::Float,
            // Narrow integers are computed in 32 bits, and the low bits are stored: they wrap at
            // that point.
            StorageFormat::I32 | StorageFormat::I16 | StorageFormat::I8 => Class::Int,
            StorageFormat::I64 => Class::Wide,
            StorageFormat::U32 | StorageFormat::U16 => Class::Unsigned,
            StorageFormat::U64 => Class::WideUnsigned,
            _ => Class::Byte,
        }
    }

    /// Returns the type of a number, the expression for a number from `bits`, and the expression
    /// for the bits of a number `v`.
    fn conversions(self) -> Option<(&'static str, &'static str, &'static str)> {
        Some(match self {
            StorageFormat::F32 => ("f32", "bitcast<f32>(bits)", "bitcast<u32>(v)"),
            StorageFormat::F16 => ("f32", "f16_to_f32(bits)", "f32_to_f16(v)"),
            StorageFormat::BF16 => ("f32", "bf16_to_f32(bits)", "f32_to_bf16(v)"),
            StorageFormat::I32 => ("i32", "bitcast<i32>(bits)", "bitcast<u32>(v)"),
            StorageFormat::I64 | StorageFormat::U64 => ("vec2<u32>", "bits", "v"),
            StorageFormat::U16 => ("u32", "bits", "(v & 0xffffu)"),
            StorageFormat::I16 => {
                ("i32", "(bitcast<i32>(bits << 16u) >> 16u)", "(bitcast<u32>(v) & 0xffffu)")
            }
            StorageFormat::I8 => ("i32", "(bitcast<i32>(bits << 24u) >> 24u)", "(bitcast<u32>(v) & 0xffu)"),
            StorageFormat::U32 | StorageFormat::U8 | StorageFormat::Bool => ("u32", "bits", "v"),
            _ => return None,
        })
    }
}

/// A tensor of a shader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub(crate) name: SlotName,
    pub(crate) store: StorageFormat,
    pub(crate) access: Access,
    /// Number of consecutive bindings of the tensor: more than one if it exceeds the maximum size
    /// of a binding.
    pub(crate) windows: u32,
    /// An earlier slot whose bindings this one shares, because both would bind the same windows.
    pub(crate) shares_with: Option<SlotName>,
}

impl Slot {
    pub(crate) fn new(name: SlotName, store: StorageFormat, access: Access) -> Slot {
        Slot { name, store, access, windows: 1, shares_with: None }
    }

    /// Returns the number of bindings that are not shared with an earlier slot.
    pub(crate) fn unshared_windows(&self) -> u32 {
        if self.shares_with.is_some() { 0 } else { self.windows }
    }

    /// Returns whether the slot may share the windows of `other` if both are the same memory: both
    /// are only read, with words of the same type.
    pub(crate) fn can_share_windows(&self, other: &Slot) -> bool {
        let read = |slot: &Slot| slot.access == Access::Read && slot.store != StorageFormat::Atomic;
        read(self) && read(other) && self.word_type() == other.word_type()
    }

    /// Returns whether its memory is bound for writing.
    pub(crate) fn is_writable(&self) -> bool {
        self.access.binds_read_write() || self.store == StorageFormat::Atomic
    }

    /// Returns whether its words are changed by atomic operations.
    fn is_atomic(&self) -> bool {
        self.store == StorageFormat::Atomic || (self.access == Access::Scattered && self.store.per_word() > 1)
    }

    /// Returns the element type of a binding's array: a word, the words of a vec4, or a float of
    /// cooperative matrices.
    fn word_type(&self) -> &'static str {
        self.word_type_and_bytes().0
    }

    /// Returns the element type of a binding's array and its size in bytes.
    fn word_type_and_bytes(&self) -> (&'static str, u64) {
        match (self.access, self.store) {
            (Access::ReadHalfVec4, _) => ("vec4<f16>", 8),
            (Access::CooperativeAccumulator, _) => ("f32", 4),
            (access, store) if access.is_vec4() => {
                [("vec4<u32>", 16), ("vec2<u32>", 8), ("u32", 4)][store.per_word() / 2]
            }
            (_, StorageFormat::I64 | StorageFormat::U64) => ("vec2<u32>", 8),
            _ => ("u32", 4),
        }
    }

    /// Returns the type of an element's bits.
    fn element_type(&self) -> &'static str {
        if self.access.is_vec4() { "u32" } else { self.word_type() }
    }

    /// Appends the declarations of the slot and its functions to `text`. `binding` is the index of
    /// its first binding. `window_bytes` is a power of two.
    pub(crate) fn declare(&self, binding: usize, window_bytes: u64, text: &mut String) {
        self.declare_bindings(binding, text);
        if self.windows > 1 {
            self.declare_windows(window_bytes, text);
        }
        if self.store == StorageFormat::Atomic {
            let (name, atomic_max) = (self.name.wgsl(), self.store_statement("atomicMax", "i", "v"));
            let _ = writeln!(text, "fn {name}_max(i: u32, v: u32) {{ {atomic_max} }}");
            return;
        }
        if self.access == Access::CooperativeAccumulator {
            return;
        }
        if self.access.is_vec4() {
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
        let word = if self.is_atomic() { "atomic<u32>" } else { self.word_type() };
        let mode = if self.is_writable() { "read_write" } else { "read" };
        for window in 0..self.unshared_windows() {
            let array = window_name(name, window);
            let index = binding + window as usize;
            let _ =
                writeln!(text, "@group(0) @binding({index}) var<storage, {mode}> {array}: array<{word}>;");
        }
        let per = store.per_word();
        let bits = self.element_type();
        let _ = writeln!(text, "const {name}_PER: u32 = {per}u;\nalias {name}_BITS = {bits};");
    }

    /// Declares functions that select the window of a word, for a tensor with several windows:
    /// `x_load(w)`, and `x_store(w, v)` or the atomic operations.
    fn declare_windows(&self, window_bytes: u64, text: &mut String) {
        let (name, array) = (self.name.wgsl(), self.shares_with.unwrap_or(self.name).wgsl());
        let bits = self.word_type();
        let words = window_bytes / self.word_type_and_bytes().1;
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
        if !self.is_atomic() {
            function(&format!("load(w: u32) -> {bits}"), &|array| format!("return {array}[i];"));
            if self.access.binds_read_write() && self.access != Access::ReadAliased {
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

    /// Returns the expression for the value of word `w`.
    fn load_expression(&self, w: &str) -> String {
        let name = self.name.wgsl();
        match (self.windows, self.is_atomic()) {
            (1, false) => format!("{name}[{w}]"),
            (1, true) => format!("atomicLoad(&{name}[{w}])"),
            _ => format!("{name}_load({w})"),
        }
    }

    /// Returns the statement that changes word `w` with an atomic operation, or stores it if its
    /// words are not atomic.
    fn store_statement(&self, operation: &str, w: &str, value: &str) -> String {
        let name = self.name.wgsl();
        match (self.windows, self.is_atomic()) {
            (1, false) => format!("{name}[{w}] = {value};"),
            (1, true) => format!("{operation}(&{name}[{w}], {value});"),
            (_, false) => format!("{name}_store({w}, {value});"),
            (_, true) => format!("{name}_{operation}({w}, {value});"),
        }
    }

    fn declare_reads(&self, text: &mut String) {
        let (name, bits) = (self.name.wgsl(), self.word_type());
        let read = match self.store.per_word() {
            1 => self.load_expression("i"),
            2 => format!("({} >> ((i & 1u) * 16u)) & 0xffffu", self.load_expression("i >> 1u")),
            _ => format!("({} >> ((i & 3u) * 8u)) & 0xffu", self.load_expression("i >> 2u")),
        };
        let _ = writeln!(text, "fn {name}_bits(i: u32) -> {bits} {{ return {read}; }}");
    }

    fn declare_scattered(&self, text: &mut String) {
        let (name, bits) = (self.name.wgsl(), self.word_type());
        let put = match self.store.per_word() {
            1 => self.store_statement("atomicStore", "i", "b"),
            per => {
                let (index_mask, width, ones) = if per == 2 { (1, 16, "0xffffu") } else { (3, 8, "0xffu") };
                let clear = self.store_statement("atomicAnd", "w", &format!("~({ones} << s)"));
                let set = self.store_statement("atomicOr", "w", &format!("(b & {ones}) << s"));
                format!("let s = (i & {index_mask}u) * {width}u; let w = i / {per}u; {clear} {set}")
            }
        };
        let _ = writeln!(text, "fn {name}_put_bits(i: u32, b: {bits}) {{ {put} }}");
    }

    fn declare_words(&self, text: &mut String) {
        let (name, bits) = (self.name.wgsl(), self.word_type());
        let (put, read) = (self.store_statement("atomicStore", "w", "word"), self.load_expression("w"));
        let _ = writeln!(text, "fn {name}_put_word(w: u32, word: {bits}) {{ {put} }}");
        let _ = writeln!(text, "fn {name}_word(w: u32) -> {bits} {{ return {read}; }}");
    }

    /// Declares functions for vec4 and for the elements in them.
    fn declare_vec4(&self, text: &mut String) {
        let (name, bits) = (self.name.wgsl(), self.word_type());
        if self.access == Access::ReadHalfVec4 {
            let word = self.load_expression("i");
            let _ = writeln!(text, "fn {name}_f16(i: u32) -> {bits} {{ return {word}; }}");
            let _ =
                writeln!(text, "fn {name}_at(i: u32) -> f32 {{ return f32({name}_f16(i / 4u)[i % 4u]); }}");
            return;
        }
        let (four, word) = (self.load_expression("i"), self.load_expression("i / 4u"));
        let (element, unpacked, packed) = match self.store.per_word() {
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
        let _ = writeln!(text, "fn {name}_bits_of_words(w: {bits}) -> vec4<u32> {{ return {unpacked}; }}");
        let _ = writeln!(
            text,
            "fn {name}_vec4_bits(i: u32) -> vec4<u32> {{ return {name}_bits_of_words({name}_words(i)); }}"
        );
        if self.access.binds_read_write() {
            let statement = self.store_statement("", "i", packed);
            let _ = writeln!(text, "fn {name}_put_vec4_bits(i: u32, v: vec4<u32>) {{ {statement} }}");
            let statement = self.store_statement("", "i", "w");
            let _ = writeln!(text, "fn {name}_put_words(i: u32, w: {bits}) {{ {statement} }}");
        }
        self.declare_numbers(text);
        if self.store.class() == Class::Float {
            self.declare_float_vec4(text);
        }
    }

    fn declare_float_vec4(&self, text: &mut String) {
        let (name, writes) = (self.name.wgsl(), self.access.binds_read_write());
        let number = |bits: &str| format!("{name}_number({bits})");
        let components = ["x", "y", "z", "w"];
        let numbers = components.map(|part| number(&format!("b.{part}"))).join(", ");
        let rounded = components.map(|part| format!("{name}_rounded(v.{part})")).join(", ");
        let words = self.word_type();
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

    /// Declares functions for numbers, if the elements are numbers.
    fn declare_numbers(&self, text: &mut String) {
        let (name, bits) = (self.name.wgsl(), self.element_type());
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
                let whole = self.store_statement("atomicStore", "i >> 1u", &word);
                format!("if ((i & 1u) == 0u) {{ {whole} }} else {{ {both} }}")
            }
            _ => both,
        };
        let _ = writeln!(text, "fn {name}_put_pair(i: u32, v: {number}, w: {number}) {{ {pair} }}");
    }
}

/// Returns the name of a window of a slot. The first window has the slot's name.
fn window_name(name: &str, window: u32) -> String {
    if window == 0 { name.into() } else { format!("{name}_window_{window}") }
}
