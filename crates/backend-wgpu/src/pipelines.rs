//! Pipelines: shaders for given dtypes and functions, each linked and compiled once.

use crate::linker::link;
use crate::names::{Fill, SlotName};
use crate::pipeline_cache::PipelineCache;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, Slot, StorageFormat};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Maximum size of a launch's parameters, in bytes.
pub(crate) const MAX_PARAMETER_BYTES: usize = 512;

/// One of the shaders that can be generated from a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Variant {
    pub(crate) shader: Shader,
    pub(crate) class: Class,
    pub(crate) slots: SmallVec<[Slot; 6]>,
    pub(crate) fills: SmallVec<[Fill; 4]>,
}

impl Variant {
    pub(crate) fn new(shader: Shader, class: Class) -> Variant {
        Variant { shader, class, slots: SmallVec::new(), fills: SmallVec::new() }
    }

    pub(crate) fn slot(mut self, name: SlotName, store: StorageFormat, access: Access) -> Variant {
        self.slots.push(Slot::new(name, store, access));
        self
    }

    /// Adds a value for a placeholder.
    pub(crate) fn fill(mut self, fill: impl Into<Fill>) -> Variant {
        self.fills.push(fill.into());
        self
    }

    /// Returns the complete WGSL source, for windows of `window_bytes` bytes.
    ///
    /// # Errors
    /// A placeholder has no value.
    fn source(&self, window_bytes: u64) -> Result<String, String> {
        let mut header = String::new();
        if self.slots.iter().any(|slot| slot.access == Access::ReadHalfVec4) {
            header.push_str("enable f16;\nenable wgpu_cooperative_matrix;\n");
        }
        header.push_str("@group(0) @binding(0) var<uniform> params: Parameters;\n");
        // Always 0, because there are fewer than 2^31 workgroups. Compilers cannot know that.
        header.push_str("fn opaque_zero() -> u32 { return params.launched >> 31u; }\n");
        header.push_str(match self.class {
            Class::Float => "fn number_from(bits: vec2<u32>) -> C { return bitcast<f32>(bits.x); }\n",
            Class::Int => "fn number_from(bits: vec2<u32>) -> C { return bitcast<i32>(bits.x); }\n",
            Class::Byte | Class::Unsigned => "fn number_from(bits: vec2<u32>) -> C { return bits.x; }\n",
            Class::Wide | Class::WideUnsigned => "fn number_from(bits: vec2<u32>) -> C { return bits; }\n",
        });
        let mut binding = 1;
        for slot in &self.slots {
            slot.declare(binding, window_bytes, &mut header);
            binding += slot.unshared_windows() as usize;
        }
        header.push_str(self.shader.source());
        link(&header, self.class, &self.fills).map_err(|placeholder| format!("nothing fills {placeholder}"))
    }
}

/// A compiled shader and the layout of its bindings.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) compiled: wgpu::ComputePipeline,
    pub(crate) layout: Arc<Layout>,
}

/// A layout of bindings: parameters, then tensors, each read-only or writable.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) bind_group: wgpu::BindGroupLayout,
    pipeline_layout: wgpu::PipelineLayout,
}

/// All pipelines of a device that were requested.
#[derive(Debug)]
pub(crate) struct Pipelines {
    /// Bytes of each binding of a tensor that has several.
    window_bytes: u64,
    checks: wgpu::ShaderRuntimeChecks,
    pub(crate) cache: PipelineCache,
    compiled: RwLock<FxHashMap<Variant, Arc<Pipeline>>>,
    layouts: RwLock<FxHashMap<SmallVec<[bool; 8]>, Arc<Layout>>>,
    #[cfg(test)]
    rejected: parking_lot::Mutex<Vec<String>>,
    /// Whether cooperative matrices are emulated.
    #[cfg(test)]
    pub(crate) emulated: std::sync::atomic::AtomicBool,
}

impl Pipelines {
    /// Creates an empty collection. `checked`: the compiler adds checks around every access and
    /// every loop.
    pub(crate) fn new(window_bytes: u64, checked: bool, cache: PipelineCache) -> Pipelines {
        let mut checks = wgpu::ShaderRuntimeChecks::checked();
        checks.bounds_checks = checked;
        checks.force_loop_bounding = checked;
        Pipelines {
            window_bytes,
            checks,
            cache,
            compiled: RwLock::default(),
            layouts: RwLock::default(),
            #[cfg(test)]
            rejected: parking_lot::Mutex::default(),
            #[cfg(test)]
            emulated: Default::default(),
        }
    }

    /// Returns the pipeline of `variant`, which is compiled at the first request.
    pub(crate) fn get(&self, device: &wgpu::Device, variant: &Variant) -> Result<Arc<Pipeline>, String> {
        if let Some(pipeline) = self.compiled.read().get(variant) {
            return Ok(pipeline.clone());
        }
        let compiled = self.compile(device, variant);
        #[cfg(test)]
        self.rejected.lock().extend(compiled.as_ref().err().cloned());
        let pipeline = Arc::new(compiled?);
        self.cache.count_compiled();
        Ok(self.compiled.write().entry(variant.clone()).or_insert(pipeline).clone())
    }

    /// Describes the compiled shaders: the template and the values of its placeholders.
    pub(crate) fn descriptions(&self) -> Vec<String> {
        let description = |variant: &Variant| {
            let fills = variant.fills.iter().map(|fill| format!(" {}={}", fill.placeholder(), fill.wgsl()));
            fills.fold(variant.shader.path().to_string(), |description, fill| description + &fill)
        };
        self.compiled.read().keys().map(description).collect()
    }

    /// Returns the linked source of a shader.
    #[cfg(any(test, feature = "noop"))]
    pub(crate) fn linked(&self, variant: &Variant) -> Result<String, String> {
        variant.source(self.window_bytes)
    }

    #[cfg(test)]
    pub(crate) fn compiled(&self) -> (usize, Vec<String>) {
        (self.compiled.read().len(), self.rejected.lock().clone())
    }

    fn compile(&self, device: &wgpu::Device, variant: &Variant) -> Result<Pipeline, String> {
        let layout = self.layout(device, variant);
        let source = variant.source(self.window_bytes).map_err(|error| format!("{variant:?}: {error}"))?;
        // The last scope is popped first.
        let filters =
            [wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::Validation];
        let scopes = filters.map(|filter| device.push_error_scope(filter));
        #[cfg(test)]
        let source = match self.emulated.load(std::sync::atomic::Ordering::Relaxed) {
            true => crate::emulation::emulate_matrices(&source),
            false => source,
        };
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(variant.shader.path()),
            source: wgpu::ShaderSource::Wgsl(source.as_str().into()),
        };
        // SAFETY: the shader is part of this project. Its loops end, because each counts up to a
        // size. Its indices come from shapes and strides that core has checked against the memory.
        // Indices read from a tensor are compared with the size of their axis before they are used.
        let module = unsafe { device.create_shader_module_trusted(descriptor, self.checks) };
        let compiled = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(variant.shader.path()),
            layout: Some(&layout.pipeline_layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: Default::default(),
            cache: self.cache.cache(),
        });
        let errors = scopes.into_iter().rev().map(|scope| pollster::block_on(scope.pop()));
        match errors.fold(None, Option::or) {
            None => Ok(Pipeline { compiled, layout }),
            Some(error) => Err(format!(
                "{} of {variant:?}: {error}\n{}",
                variant.shader.path(),
                with_line_numbers(&source)
            )),
        }
    }

    fn layout(&self, device: &wgpu::Device, variant: &Variant) -> Arc<Layout> {
        let windows = |slot: &Slot| std::iter::repeat_n(slot.is_writable(), slot.unshared_windows() as usize);
        let key: SmallVec<[bool; 8]> = variant.slots.iter().flat_map(windows).collect();
        if let Some(layout) = self.layouts.read().get(&key) {
            return layout.clone();
        }
        let layout = Arc::new(Layout::new(device, &key));
        self.layouts.write().entry(key).or_insert(layout).clone()
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
        for (index, &written) in written.iter().enumerate() {
            entries.push(entry(index + 1, wgpu::BufferBindingType::Storage { read_only: !written }, false));
        }
        let bind_group = device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&bind_group)],
            immediate_size: 0,
        });
        Layout { bind_group, pipeline_layout }
    }
}

/// Adds line numbers to a source, for error messages of the compiler.
fn with_line_numbers(source: &str) -> String {
    source.lines().enumerate().map(|(number, line)| format!("{:4} {line}\n", number + 1)).collect()
}
