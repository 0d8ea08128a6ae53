//! Pipelines: a shader for given dtypes and functions, linked and compiled once.

use crate::disk::Disk;
use crate::linker::{Class, link};
use crate::slots::{Access, Slot, Store};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Bytes of a launch's parameters, at most.
pub(crate) const MOST_PARAMETERS: usize = 512;

/// A function of the class files: the family that its name begins with, and the op's stem.
pub(crate) type Name = [&'static str; 2];

/// What an identifier in a shader stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Define {
    Text(&'static str),
    Name(Name),
    Number(u32),
    Flag(bool),
}

impl Define {
    fn text(self) -> String {
        match self {
            Define::Text(text) => text.into(),
            Define::Name(name) => name.concat(),
            Define::Number(number) => format!("{number}u"),
            Define::Flag(flag) => flag.to_string(),
        }
    }
}

/// One shader among those that a file makes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Variant {
    pub(crate) file: &'static str,
    pub(crate) class: Class,
    pub(crate) slots: SmallVec<[Slot; 6]>,
    pub(crate) defines: SmallVec<[(&'static str, Define); 4]>,
}

impl Variant {
    pub(crate) fn new(file: &'static str, class: Class) -> Variant {
        Variant { file, class, slots: SmallVec::new(), defines: SmallVec::new() }
    }

    pub(crate) fn slot(mut self, name: &'static str, store: Store, access: Access) -> Variant {
        self.slots.push(Slot::new(name, store, access));
        self
    }

    pub(crate) fn text(mut self, name: &'static str, text: &'static str) -> Variant {
        self.defines.push((name, Define::Text(text)));
        self
    }

    pub(crate) fn name(mut self, name: &'static str, function: Name) -> Variant {
        self.defines.push((name, Define::Name(function)));
        self
    }

    pub(crate) fn number(mut self, name: &'static str, number: u32) -> Variant {
        self.defines.push((name, Define::Number(number)));
        self
    }

    pub(crate) fn flag(mut self, name: &'static str, flag: bool) -> Variant {
        self.defines.push((name, Define::Flag(flag)));
        self
    }

    /// The whole WGSL text, for windows of so many bytes.
    fn source(&self, window_bytes: u64) -> String {
        let mut header = String::new();
        if self.slots.iter().any(|slot| slot.access == Access::Halves) {
            header.push_str("enable f16;\nenable wgpu_cooperative_matrix;\n");
        }
        header.push_str("@group(0) @binding(0) var<uniform> params: Parameters;\n");
        // There are fewer than 2^31 work groups, which compilers do not know.
        header.push_str("fn opaque_zero() -> u32 { return params.launched >> 31u; }\n");
        header.push_str(match self.class {
            Class::Float => "fn number_from(bits: vec2<u32>) -> C { return bitcast<f32>(bits.x); }\n",
            Class::Int => "fn number_from(bits: vec2<u32>) -> C { return bitcast<i32>(bits.x); }\n",
            Class::Byte => "fn number_from(bits: vec2<u32>) -> C { return bits.x; }\n",
            Class::Wide => "fn number_from(bits: vec2<u32>) -> C { return bits; }\n",
        });
        let mut binding = 1;
        for slot in &self.slots {
            slot.declare(binding, window_bytes, &mut header);
            binding += slot.own_windows() as usize;
        }
        header.push_str(crate::ops::shader(self.file));
        let defines: Vec<(String, String)> =
            self.defines.iter().map(|(name, define)| (name.to_string(), define.text())).collect();
        link(&header, self.class, &defines)
    }
}

/// A compiled shader and the layout of what is bound to it.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) compiled: wgpu::ComputePipeline,
    pub(crate) layout: Arc<Layout>,
}

/// A layout of bindings: parameters, then tensors, each read or written.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) group: wgpu::BindGroupLayout,
    whole: wgpu::PipelineLayout,
}

/// Every pipeline of a device that was asked for.
#[derive(Debug)]
pub(crate) struct Pipelines {
    /// What a binding of a tensor that has several covers.
    window_bytes: u64,
    checks: wgpu::ShaderRuntimeChecks,
    pub(crate) disk: Disk,
    compiled: RwLock<FxHashMap<Variant, Arc<Pipeline>>>,
    layouts: RwLock<FxHashMap<SmallVec<[bool; 8]>, Arc<Layout>>>,
    #[cfg(test)]
    refused: parking_lot::Mutex<Vec<String>>,
    /// Whether cooperative matrices are emulated.
    #[cfg(test)]
    pub(crate) emulated: std::sync::atomic::AtomicBool,
}

impl Pipelines {
    /// `checked`: with checks by the compiler around every access and every loop.
    pub(crate) fn new(window_bytes: u64, checked: bool, disk: Disk) -> Pipelines {
        let mut checks = wgpu::ShaderRuntimeChecks::checked();
        checks.bounds_checks = checked;
        checks.force_loop_bounding = checked;
        Pipelines {
            window_bytes,
            checks,
            disk,
            compiled: RwLock::default(),
            layouts: RwLock::default(),
            #[cfg(test)]
            refused: parking_lot::Mutex::default(),
            #[cfg(test)]
            emulated: Default::default(),
        }
    }

    /// The pipeline of `variant`, compiled where it is asked for the first time.
    pub(crate) fn get(&self, device: &wgpu::Device, variant: &Variant) -> Result<Arc<Pipeline>, String> {
        if let Some(pipeline) = self.compiled.read().get(variant) {
            return Ok(pipeline.clone());
        }
        let compiled = self.compile(device, variant);
        #[cfg(test)]
        self.refused.lock().extend(compiled.as_ref().err().cloned());
        let pipeline = Arc::new(compiled?);
        self.disk.compiled();
        Ok(self.compiled.write().entry(variant.clone()).or_insert(pipeline).clone())
    }

    /// What was compiled: file and defines.
    pub(crate) fn described(&self) -> Vec<String> {
        let words = |variant: &Variant| {
            let defines = variant.defines.iter().map(|(name, define)| format!(" {name}={}", define.text()));
            defines.fold(variant.file.to_string(), |words, define| words + &define)
        };
        self.compiled.read().keys().map(words).collect()
    }

    /// The linked text of a shader.
    #[cfg(test)]
    pub(crate) fn linked(&self, variant: &Variant) -> String {
        variant.source(self.window_bytes)
    }

    #[cfg(test)]
    pub(crate) fn compiled(&self) -> (usize, Vec<String>) {
        (self.compiled.read().len(), self.refused.lock().clone())
    }

    fn compile(&self, device: &wgpu::Device, variant: &Variant) -> Result<Pipeline, String> {
        let layout = self.layout(device, variant);
        // The last one is popped first.
        let kinds =
            [wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::Validation];
        let scopes = kinds.map(|kind| device.push_error_scope(kind));
        let source = variant.source(self.window_bytes);
        #[cfg(test)]
        let source = match self.emulated.load(std::sync::atomic::Ordering::Relaxed) {
            true => crate::emulation::emulated(&source),
            false => source,
        };
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(variant.file),
            source: wgpu::ShaderSource::Wgsl(source.as_str().into()),
        };
        // SAFETY: the shader is the project's own. Its loops end: each counts up to a size. Its places come from shapes and strides that core has checked
        // against the memory; what comes from a tensor, an index, is compared with its axis before it is followed.
        let module = unsafe { device.create_shader_module_trusted(descriptor, self.checks) };
        let compiled = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(variant.file),
            layout: Some(&layout.whole),
            module: &module,
            entry_point: Some("main"),
            compilation_options: Default::default(),
            cache: self.disk.cache(),
        });
        let errors = scopes.into_iter().rev().map(|scope| pollster::block_on(scope.pop()));
        match errors.fold(None, Option::or) {
            None => Ok(Pipeline { compiled, layout }),
            Some(error) => Err(format!("{} of {variant:?}: {error}\n{}", variant.file, numbered(&source))),
        }
    }

    fn layout(&self, device: &wgpu::Device, variant: &Variant) -> Arc<Layout> {
        let windows = |slot: &Slot| std::iter::repeat_n(slot.writable(), slot.own_windows() as usize);
        let key: SmallVec<[bool; 8]> = variant.slots.iter().flat_map(windows).collect();
        if let Some(layout) = self.layouts.read().get(&key) {
            return layout.clone();
        }
        let made = Arc::new(Layout::new(device, &key));
        self.layouts.write().entry(key).or_insert(made).clone()
    }
}

impl Layout {
    fn new(device: &wgpu::Device, written: &[bool]) -> Layout {
        let entry = |binding: usize, ty: wgpu::BufferBindingType, has_dynamic_offset: bool| {
            wgpu::BindGroupLayoutEntry {
                binding: binding as u32,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None },
                count: None,
            }
        };
        let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform, true)];
        for (at, &written) in written.iter().enumerate() {
            entries.push(entry(at + 1, wgpu::BufferBindingType::Storage { read_only: !written }, false));
        }
        let group = device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let whole = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&group)],
            immediate_size: 0,
        });
        Layout { group, whole }
    }
}

/// A text with the numbers of its lines, for messages of the compiler.
fn numbered(text: &str) -> String {
    text.lines().enumerate().map(|(number, line)| format!("{:4} {line}\n", number + 1)).collect()
}
