//! `x.i(..)`: NumPy's indexing by integers, ranges, steps, new axes, an ellipsis, integer tensors
//! and masks; and assignment to slices.

use super::index::index_dtype;
use crate::DType;
use crate::Shape;
use crate::dispatch::apply_one;
use crate::error::{Error, Result, with_index_error_op};
use crate::shape::MAX_RANK;
use crate::tensor::Tensor;
use crate::text;
use smallvec::SmallVec;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

mod assign;

pub use assign::SliceAssign;

/// One item of an index.
#[derive(Clone)]
pub enum IndexItem {
    /// One element, which removes the axis. Negative indices count from the end.
    At(isize),
    /// A range of an axis, with a step.
    Slice(Slice),
    /// A new axis of size 1.
    NewAxis,
    /// All axes that the other items do not index.
    Ellipsis,
    /// Elements selected by an integer tensor, or by a mask, which indexes as many axes as it has.
    Tensor(Tensor),
}

/// Every `step`-th element from `start` to `end` (excluded), as Python's `start:end:step`.
///
/// Negative bounds count from the end. Bounds outside the axis are clamped. A negative step selects
/// in reverse order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    start: Option<isize>,
    end: Option<isize>,
    step: isize,
}

/// Inserts an axis of size 1: `x.i((.., NewAxis))`.
#[derive(Clone, Copy, Debug)]
pub struct NewAxis;

/// Represents all axes that an index does not contain: `x.i((Ellipsis, 0))`.
#[derive(Clone, Copy, Debug)]
pub struct Ellipsis;

impl Slice {
    /// Creates `start:end:step`. `None` is the first or last element, depending on the sign of the
    /// step.
    pub fn new(start: impl Into<Option<isize>>, end: impl Into<Option<isize>>, step: isize) -> Slice {
        Slice { start: start.into(), end: end.into(), step }
    }

    /// Returns start, end and step as parameters of [`Layout::slice`](crate::Layout::slice), for an
    /// axis of `size` elements.
    fn resolve(&self, size: usize) -> Result<(usize, isize, isize)> {
        if self.step == 0 {
            return Err(Error::invalid("index", "a slice with step 0"));
        }
        let size = size as isize;
        // The bounds of start and end. One before the first element is valid only with a negative
        // step.
        let (lowest, highest) = if self.step > 0 { (0, size) } else { (-1, size - 1) };
        let clamp_bound = |bound: isize| {
            let from_front = if bound < 0 { bound.saturating_add(size) } else { bound };
            from_front.clamp(lowest, highest)
        };
        let (from, to) = if self.step > 0 { (lowest, highest) } else { (highest, lowest) };
        let (start, end) = (self.start.map_or(from, clamp_bound), self.end.map_or(to, clamp_bound));
        // No elements are selected: any empty slice is equivalent.
        Ok(if start < 0 { (0, 0, 1) } else { (start as usize, end, self.step) })
    }
}

macro_rules! index_from_numbers {
    ($($int:ty),*) => {$(
        impl From<$int> for IndexItem {
            fn from(at: $int) -> Self { IndexItem::At(to_isize(at)) }
        }
        impl From<Range<$int>> for IndexItem {
            fn from(range: Range<$int>) -> Self { slice_item(Some(to_isize(range.start)), Some(to_isize(range.end))) }
        }
        impl From<RangeFrom<$int>> for IndexItem {
            fn from(range: RangeFrom<$int>) -> Self { slice_item(Some(to_isize(range.start)), None) }
        }
        impl From<RangeTo<$int>> for IndexItem {
            fn from(range: RangeTo<$int>) -> Self { slice_item(None, Some(to_isize(range.end))) }
        }
        impl From<RangeInclusive<$int>> for IndexItem {
            fn from(range: RangeInclusive<$int>) -> Self { slice_item(Some(to_isize(*range.start())), end_after(to_isize(*range.end()))) }
        }
        impl From<RangeToInclusive<$int>> for IndexItem {
            fn from(range: RangeToInclusive<$int>) -> Self { slice_item(None, end_after(to_isize(range.end))) }
        }
    )*};
}
index_from_numbers!(i32, i64, isize, usize);

/// Converts to `isize`. A number too large for `isize` is outside every axis.
fn to_isize(number: impl TryInto<isize>) -> isize {
    number.try_into().unwrap_or(isize::MAX)
}

/// Returns the exclusive end of a range that includes `last`; -1 is the last element.
fn end_after(last: isize) -> Option<isize> {
    if last == -1 { None } else { Some(last.saturating_add(1)) }
}

fn slice_item(start: Option<isize>, end: Option<isize>) -> IndexItem {
    IndexItem::Slice(Slice { start, end, step: 1 })
}

impl From<RangeFull> for IndexItem {
    fn from(_: RangeFull) -> Self {
        slice_item(None, None)
    }
}
impl From<Slice> for IndexItem {
    fn from(slice: Slice) -> Self {
        IndexItem::Slice(slice)
    }
}
impl From<NewAxis> for IndexItem {
    fn from(_: NewAxis) -> Self {
        IndexItem::NewAxis
    }
}
impl From<Ellipsis> for IndexItem {
    fn from(_: Ellipsis) -> Self {
        IndexItem::Ellipsis
    }
}
impl From<&Tensor> for IndexItem {
    fn from(tensor: &Tensor) -> Self {
        IndexItem::Tensor(tensor.clone())
    }
}
impl From<Tensor> for IndexItem {
    fn from(tensor: Tensor) -> Self {
        IndexItem::Tensor(tensor)
    }
}

/// Type parameter of an index that is one item.
#[derive(Debug)]
pub struct Single;

/// Type parameter of an index that is a list of items.
#[derive(Debug)]
pub struct IndexList;

/// A type that can index a tensor: one item, a tuple of up to eight, or a list of [`IndexItem`]s.
/// `Kind` distinguishes them and is inferred.
pub trait IntoIndex<Kind> {
    /// Returns the items.
    fn into_index(self) -> Vec<IndexItem>;
}

impl<Item: Into<IndexItem>> IntoIndex<Single> for Item {
    fn into_index(self) -> Vec<IndexItem> {
        vec![self.into()]
    }
}
impl IntoIndex<IndexList> for &[IndexItem] {
    fn into_index(self) -> Vec<IndexItem> {
        self.to_vec()
    }
}
impl IntoIndex<IndexList> for Vec<IndexItem> {
    fn into_index(self) -> Vec<IndexItem> {
        self
    }
}

macro_rules! index_from_tuples {
    ($(($($item:ident),+))*) => {$(
        impl<$($item: Into<IndexItem>),+> IntoIndex<($($item,)+)> for ($($item,)+) {
            #[allow(non_snake_case, reason = "the type parameters name the values too")]
            fn into_index(self) -> Vec<IndexItem> {
                let ($($item,)+) = self;
                vec![$($item.into()),+]
            }
        }
    )*};
}
index_from_tuples! { (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) (A, B, C, D, E, F, G) (A, B, C, D, E, F, G, H) }

impl Tensor {
    /// Indexes this tensor by NumPy's rules: `x.i((0, 1..3))`, `x.i((.., -1))`,
    /// `x.i((Ellipsis, NewAxis))`, `x.i(Slice::new(None, None, -1))`, `x.i(&indices)`,
    /// `x.i((&mask, 2..))`.
    ///
    /// Clippy reports a literal range such as `1..-1` as empty; `Slice::new(1, -1, 1)` is
    /// equivalent.
    ///
    /// The result is a view unless the index contains tensors. Integer tensors are broadcast
    /// against each other. If they are adjacent, their axes are at the position of the first one,
    /// otherwise at the front; integers count as index tensors for this purpose. A mask is
    /// equivalent to the indices of its true elements; it is copied to the host.
    ///
    /// # Errors
    /// Returns an error if there are more items than axes, if an integer is out of range, for a
    /// slice with step 0, for a second ellipsis, if a tensor has another dtype, or if the shape of
    /// a mask differs from that of the axes it indexes.
    pub fn i<Kind>(&self, index: impl IntoIndex<Kind>) -> Result<Tensor> {
        let items = complete(self.shape(), index.into_index())?;
        if items.iter().any(|item| matches!(item, IndexItem::Tensor(_))) {
            return index_with_tensors(self, items);
        }
        index_basic(self, &items)
    }

    /// Returns this tensor with `source`, broadcast, assigned to the elements that `index` selects
    /// (see [`i`](Tensor::i); tensors are not supported). Gradients flow to both tensors.
    ///
    /// # Errors
    /// Returns an error if the index is invalid or contains a tensor, if the source does not
    /// broadcast to the selected shape, or if it has another dtype.
    pub fn slice_assign<Kind>(&self, index: impl IntoIndex<Kind>, source: &Tensor) -> Result<Tensor> {
        let items = complete(self.shape(), index.into_index())?;
        let (op, shape) = SliceAssign::of(self.shape(), &items)?;
        if !source.shape().broadcasts_to(&shape) {
            return Err(assign_error(source.shape(), &shape));
        }
        // The op has no removed or new axes: the source is reshaped to the region in the base.
        let source = source.expand(shape)?.reshape(op.region(self.shape()))?;
        apply_one(op, &[self, &source])
    }

    /// Overwrites the elements that `index` selects (see [`i`](Tensor::i); tensors are not
    /// supported) with `source`, broadcast and converted.
    ///
    /// # Errors
    /// Returns an error if the index is invalid or contains a tensor, and the errors of
    /// [`copy_`](Tensor::copy_).
    pub fn slice_assign_<Kind>(&self, index: impl IntoIndex<Kind>, source: &Tensor) -> Result<()> {
        let items = complete(self.shape(), index.into_index())?;
        SliceAssign::of(self.shape(), &items)?;
        let target = index_basic(self, &items)?;
        if !source.shape().broadcasts_to(target.shape()) {
            return Err(assign_error(source.shape(), target.shape()));
        }
        target.copy_(source)
    }
}

fn assign_error(source: &Shape, target: &Shape) -> Error {
    Error::invalid("slice_assign", format!("a source of shape {source:?} into {target:?}"))
}

/// Returns the number of axes that an item indexes.
fn indexed_axes(item: &IndexItem) -> Result<usize> {
    match item {
        IndexItem::At(_) | IndexItem::Slice(_) => Ok(1),
        IndexItem::NewAxis | IndexItem::Ellipsis => Ok(0),
        IndexItem::Tensor(mask) if mask.dtype() == DType::Bool => match mask.rank() {
            0 => Err(Error::invalid("index", "a mask without axes")),
            rank => Ok(rank),
        },
        IndexItem::Tensor(index) if index.dtype().is_index() => Ok(1),
        IndexItem::Tensor(other) => Err(Error::dtype(
            "index",
            "tensor",
            other.dtype(),
            text![DType::I32, ", ", DType::I64, " or ", DType::Bool],
        )),
    }
}

/// Inserts full slices for the axes that are not indexed, at the ellipsis or at the end. The
/// ellipsis is kept: even if it represents no axis, tensors on both sides of it are not adjacent.
fn complete(shape: &Shape, mut items: Vec<IndexItem>) -> Result<Vec<IndexItem>> {
    let is_ellipsis = |item: &IndexItem| matches!(item, IndexItem::Ellipsis);
    if items.iter().filter(|item| is_ellipsis(item)).count() > 1 {
        return Err(Error::invalid("index", "more than one ellipsis"));
    }
    let axis_count = items.iter().map(indexed_axes).sum::<Result<usize>>()?;
    let Some(axes_left) = shape.rank().checked_sub(axis_count) else {
        return Err(Error::invalid("index", format!("{axis_count} axes of shape {shape:?}")));
    };
    let at = items.iter().position(is_ellipsis);
    let at = at.unwrap_or(items.len());
    items.splice(at..at, std::iter::repeat_n(IndexItem::from(..), axes_left));
    Ok(items)
}

fn resolve_index(at: isize, size: usize) -> Result<usize> {
    let from_front = if at < 0 { at.saturating_add_unsigned(size) } else { at };
    if from_front >= 0 && (from_front as usize) < size {
        Ok(from_front as usize)
    } else {
        Err(Error::IndexOutOfRange { op: "index", index: at as i64, size })
    }
}

/// Applies integers, slices and new axes in order, as views.
fn index_basic(x: &Tensor, items: &[IndexItem]) -> Result<Tensor> {
    let mut view = x.clone();
    let mut axis = 0;
    for item in items {
        match item {
            IndexItem::At(at) => view = view.select(axis, resolve_index(*at, view.shape().dim(axis))?)?,
            IndexItem::Slice(slice) => {
                let size = view.shape().dim(axis);
                let (start, end, step) = slice.resolve(size)?;
                if (start, end, step) != (0, size as isize, 1) {
                    view = view.slice_axis(axis, start, end, step)?;
                }
                axis += 1;
            }
            IndexItem::NewAxis => {
                view = view.unsqueeze(axis)?;
                axis += 1;
            }
            IndexItem::Ellipsis | IndexItem::Tensor(_) => {}
        }
    }
    Ok(view)
}

/// An index tensor, and the axes from which it selects elements as if they were one axis.
struct TensorIndex {
    /// The first of the axes.
    axis: usize,
    /// The number of axes.
    axes: usize,
    /// The number of elements along these axes.
    size: usize,
    /// Indices in `0..size` along these axes.
    index: Tensor,
    /// The indices as the caller passed them, if they were a tensor of integers.
    original: Option<Tensor>,
}

/// Indexes with tensors: first slices, as views, then one selection along the indexed axes, which
/// are merged.
fn index_with_tensors(x: &Tensor, items: Vec<IndexItem>) -> Result<Tensor> {
    let mut view_items = Vec::new();
    let mut tensor_indices = Vec::new();
    let mut is_indexed = Vec::new();
    let (mut source_axis, mut axis) = (0, 0);
    for item in items {
        let axis_count = indexed_axes(&item)?;
        let dims = &x.dims()[source_axis..source_axis + axis_count];
        source_axis += axis_count;
        let original = match &item {
            IndexItem::Tensor(index) if index.dtype() != DType::Bool => Some(index.clone()),
            _ => None,
        };
        let converted = convert_item(item, dims, x)?;
        is_indexed.push(matches!(converted, ConvertedItem::Indices(_)));
        match converted {
            ConvertedItem::View(IndexItem::Ellipsis) => {}
            ConvertedItem::View(item) => {
                view_items.push(item);
                axis += 1;
            }
            ConvertedItem::Indices(index) => {
                view_items.extend(std::iter::repeat_n(IndexItem::from(..), axis_count));
                tensor_indices.push(TensorIndex {
                    axis,
                    axes: axis_count,
                    size: dims.iter().product(),
                    index,
                    original,
                });
                axis += axis_count;
            }
        }
    }
    let adjacent = is_indexed.split(|&indexed| !indexed).filter(|run| !run.is_empty()).count() == 1;
    let view = index_basic(x, &view_items)?;
    with_index_error_op("index", || select_at(&view, &tensor_indices, adjacent)).map_err(
        |error| match error {
            Error::IndexOutOfRange { .. } => original_index_error(&tensor_indices, error),
            other => other,
        },
    )
}

/// Returns the first index out of range as the caller passed it, before negative indices are
/// converted.
fn original_index_error(tensor_indices: &[TensorIndex], error: Error) -> Error {
    for tensor_index in tensor_indices {
        let values = tensor_index
            .original
            .as_ref()
            .and_then(|original| original.to_dtype(DType::I64).ok()?.to_vec::<i64>().ok());
        let size = tensor_index.size as i64;
        if let Some(&index) = values.iter().flatten().find(|&&index| !(-size..size).contains(&index)) {
            return Error::IndexOutOfRange { op: "index", index, size: tensor_index.size };
        }
    }
    error.index_of("index")
}

/// What an item of an index with tensors is converted to.
enum ConvertedItem {
    /// A slice or new axis, applied as a view.
    View(IndexItem),
    /// Indices along the axes that the item indexes.
    Indices(Tensor),
}

/// Converts integers and tensors to indices along the axes (of sizes `dims`) that they index.
fn convert_item(item: IndexItem, dims: &[usize], x: &Tensor) -> Result<ConvertedItem> {
    Ok(match item {
        IndexItem::At(at) => {
            let at = resolve_index(at, dims[0])? as i64;
            ConvertedItem::Indices(Tensor::full((), at, index_dtype(dims[0]), x.device())?)
        }
        IndexItem::Tensor(mask) if mask.dtype() == DType::Bool => {
            if mask.dims() != dims {
                return Err(Error::invalid(
                    "index",
                    format!("a mask of shape {:?} on axes of sizes {dims:?}", mask.shape()),
                ));
            }
            ConvertedItem::Indices(mask.true_positions()?)
        }
        IndexItem::Tensor(index) => ConvertedItem::Indices(wrap_negative(&index, dims[0])?),
        other => ConvertedItem::View(other),
    })
}

/// Converts negative indices, which count from the end. Indices out of range stay out of range; the
/// gather reports them.
fn wrap_negative(index: &Tensor, size: usize) -> Result<Tensor> {
    let index =
        if index.dtype() == index_dtype(size) { index.clone() } else { index.to_dtype(DType::I64)? };
    index.lt_scalar(0)?.where_(&index.add_scalar(size as i64)?, &index)
}

/// Selects the elements of `view` at the indices of all index tensors, which are broadcast against
/// each other.
fn select_at(view: &Tensor, tensor_indices: &[TensorIndex], adjacent: bool) -> Result<Tensor> {
    let mut shape = Shape::SCALAR;
    for tensor_index in tensor_indices {
        shape = shape.broadcast(tensor_index.index.shape(), "index")?;
    }
    let target = if adjacent { tensor_indices[0].axis } else { 0 };
    let is_indexed = |axis: usize| {
        tensor_indices
            .iter()
            .any(|tensor_index| (tensor_index.axis..tensor_index.axis + tensor_index.axes).contains(&axis))
    };
    let mut order: SmallVec<[usize; MAX_RANK]> = (0..view.rank()).filter(|&axis| !is_indexed(axis)).collect();
    let indexed: SmallVec<[usize; MAX_RANK]> = (0..view.rank()).filter(|&axis| is_indexed(axis)).collect();
    let (first, last) = (target, target + indexed.len() - 1);
    order.insert_many(target, indexed);
    let merged = view.permute_axes(&order)?.flatten(first, last)?;
    let flat = joint_index(tensor_indices, &shape)?;
    let chosen = merged.index_select(target, &flat.reshape([shape.elements()])?)?;
    let mut dims: Vec<usize> = merged.dims()[..target].to_vec();
    dims.extend(shape.dims());
    dims.extend(&merged.dims()[target + 1..]);
    chosen.reshape(Shape::new(&dims)?)
}

/// Returns the index of each element along all indexed axes merged into one, in row-major order of
/// the index tensors. An index outside the axes of its index tensor is reported here.
fn joint_index(tensor_indices: &[TensorIndex], shape: &Shape) -> Result<Tensor> {
    if let [only] = tensor_indices {
        return Ok(only.index.clone());
    }
    let dtype = index_dtype(tensor_indices.iter().map(|tensor_index| tensor_index.size).product());
    let mut joint = Tensor::zeros((), dtype, tensor_indices[0].index.device())?;
    for (at, tensor_index) in tensor_indices.iter().enumerate() {
        let step = tensor_indices[at + 1..].iter().map(|later| later.size).product::<usize>() as i64;
        joint = joint.add(&tensor_index.scaled(step, dtype)?)?;
    }
    joint.expand(*shape)
}

impl TensorIndex {
    /// Returns the indices times `step`, as `dtype`.
    fn scaled(&self, step: i64, dtype: DType) -> Result<Tensor> {
        if self.original.is_none() {
            return self.index.to_dtype(dtype)?.mul_scalar(step);
        }
        // The multiples are looked up in a table. Otherwise an asynchronous device would report an
        // index out of range relative to all merged axes.
        let steps = Tensor::iota(self.size, dtype, 0, step, self.index.device())?;
        let flat = self.index.reshape([self.index.elements()])?;
        steps.index_select(0, &flat)?.reshape(*self.index.shape())
    }
}
