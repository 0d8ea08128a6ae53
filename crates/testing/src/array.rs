//! Plain row-major float64 arrays: the inputs and outputs of oracles.

/// A row-major array of float64.
///
/// Represents the values of every dtype exactly, except large i64 and u64 values; bools are 0 and
/// 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The sizes of the axes.
    pub shape: Vec<usize>,
    /// The elements in row-major order.
    pub data: Vec<f64>,
}

impl Array {
    /// Creates an array of these elements.
    ///
    /// # Panics
    /// If the number of elements does not match the shape: a mistake in an oracle.
    pub fn new(shape: &[usize], data: Vec<f64>) -> Array {
        assert_eq!(
            shape.iter().product::<usize>(),
            data.len(),
            "an array of shape {shape:?} needs that many elements"
        );
        Array { shape: shape.to_vec(), data }
    }

    /// Creates an array with the same value everywhere.
    pub fn full(shape: &[usize], value: f64) -> Array {
        Array { shape: shape.to_vec(), data: vec![value; shape.iter().product()] }
    }

    /// Creates an array of zeros.
    pub fn zeros(shape: &[usize]) -> Array {
        Array::full(shape, 0.0)
    }

    /// Creates an array of rank 0 with a single value.
    pub fn scalar(value: f64) -> Array {
        Array::full(&[], value)
    }

    /// Creates the array whose element at each index is `f(index)`.
    pub fn from_fn(shape: &[usize], mut f: impl FnMut(&[usize]) -> f64) -> Array {
        let elements: usize = shape.iter().product();
        let mut index = vec![0; shape.len()];
        let mut data = Vec::with_capacity(elements);
        for _ in 0..elements {
            data.push(f(&index));
            advance(&mut index, shape);
        }
        Array { shape: shape.to_vec(), data }
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.data.len()
    }

    /// Returns the sizes as an array, so that a pattern can name them: `let [batch, width] =
    /// x.sizes();`
    ///
    /// # Panics
    /// If the rank is not `N`: a mistake in an oracle.
    pub fn sizes<const N: usize>(&self) -> [usize; N] {
        self.shape.as_slice().try_into().unwrap_or_else(|_| panic!("rank {N} of shape {:?}", self.shape))
    }

    /// Returns the position in `data` of the element at `index`.
    pub fn position(&self, index: &[usize]) -> usize {
        debug_assert_eq!(index.len(), self.rank(), "an index of the array's rank");
        index.iter().zip(&self.shape).fold(0, |position, (&at, &size)| {
            debug_assert!(at < size, "index {index:?} in shape {:?}", self.shape);
            position * size + at
        })
    }

    /// Returns the element at `index`.
    pub fn at(&self, index: &[usize]) -> f64 {
        self.data[self.position(index)]
    }

    /// Returns a mutable reference to the element at `index`.
    pub fn at_mut(&mut self, index: &[usize]) -> &mut f64 {
        let position = self.position(index);
        &mut self.data[position]
    }

    /// Applies `f` to each element.
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Array {
        Array { shape: self.shape.clone(), data: self.data.iter().map(|&value| f(value)).collect() }
    }

    /// Applies `f` to each pair of elements; both sides are broadcast as in NumPy.
    pub fn zip(&self, other: &Array, f: impl Fn(f64, f64) -> f64) -> Array {
        let shape = broadcast_shape(&self.shape, &other.shape);
        let (left, right) = (self.expand(&shape), other.expand(&shape));
        let data = left.data.iter().zip(&right.data).map(|(&a, &b)| f(a, b)).collect();
        Array { shape, data }
    }

    /// Repeats this array along axes of size 1 and new leading axes.
    ///
    /// # Panics
    /// If the shape does not broadcast: a mistake in an oracle.
    pub fn expand(&self, shape: &[usize]) -> Array {
        if self.shape == shape {
            return self.clone();
        }
        assert_eq!(broadcast_shape(&self.shape, shape), shape, "{:?} expands to {shape:?}", self.shape);
        let leading = shape.len() - self.rank();
        let mut source_index = vec![0; self.rank()];
        Array::from_fn(shape, |index| {
            for (axis, at) in source_index.iter_mut().enumerate() {
                *at = if self.shape[axis] == 1 { 0 } else { index[leading + axis] };
            }
            self.at(&source_index)
        })
    }

    /// Returns the same elements in another shape.
    pub fn reshape(&self, shape: &[usize]) -> Array {
        Array::new(shape, self.data.clone())
    }

    /// Permutes the axes: axis `i` of the result is axis `order[i]` of this array.
    pub fn permute(&self, order: &[usize]) -> Array {
        let shape: Vec<usize> = order.iter().map(|&axis| self.shape[axis]).collect();
        let mut source_index = vec![0; self.rank()];
        Array::from_fn(&shape, |index| {
            for (to, &from) in order.iter().enumerate() {
                source_index[from] = index[to];
            }
            self.at(&source_index)
        })
    }

    /// Transposes the last two axes.
    pub fn t(&self) -> Array {
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.swap(self.rank() - 2, self.rank() - 1);
        self.permute(&order)
    }

    /// Replaces each slice along `axis` by `f(slice)`. All results must have the same length, which
    /// may differ from that of the slices. The order of the axes does not change.
    pub fn map_slices(&self, axis: usize, f: impl Fn(&[f64]) -> Vec<f64>) -> Array {
        let size = self.shape[axis];
        let inner: usize = self.shape[axis + 1..].iter().product();
        let outer: usize = self.shape[..axis].iter().product();
        let mut length = size;
        let mut slices = Vec::with_capacity(outer * inner);
        for o in 0..outer {
            for i in 0..inner {
                let slice: Vec<f64> = (0..size).map(|s| self.data[(o * size + s) * inner + i]).collect();
                let result = f(&slice);
                length = result.len();
                slices.push(result);
            }
        }
        let mut shape = self.shape.clone();
        shape[axis] = if slices.is_empty() { f(&vec![0.0; size]).len() } else { length };
        let mut data = Vec::with_capacity(outer * length * inner);
        for o in 0..outer {
            for s in 0..length {
                data.extend((0..inner).map(|i| slices[o * inner + i][s]));
            }
        }
        Array::new(&shape, data)
    }

    /// Reduces `axes`: calls `f` with all elements along them, in row-major order, for each index
    /// of the other axes.
    pub fn reduce(&self, axes: &[usize], keep: Keep, f: impl Fn(&[f64]) -> f64) -> Array {
        let kept: Vec<usize> = (0..self.rank()).filter(|axis| !axes.contains(axis)).collect();
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        let order: Vec<usize> = kept.iter().chain(&sorted).copied().collect();
        let permuted = self.permute(&order);
        let count: usize = sorted.iter().map(|&axis| self.shape[axis]).product();
        let outside: usize = kept.iter().map(|&axis| self.shape[axis]).product();
        let data = (0..outside).map(|row| f(&permuted.data[row * count..(row + 1) * count])).collect();
        let shape: Vec<usize> = match keep {
            Keep::Yes => {
                (0..self.rank()).map(|axis| if axes.contains(&axis) { 1 } else { self.shape[axis] }).collect()
            }
            Keep::No => kept.iter().map(|&axis| self.shape[axis]).collect(),
        };
        Array::new(&shape, data)
    }

    /// Returns the sum of all elements.
    pub fn sum(&self) -> f64 {
        self.data.iter().sum()
    }

    /// Returns the sum of the products of corresponding elements.
    pub fn dot(&self, other: &Array) -> f64 {
        debug_assert_eq!(self.shape, other.shape, "a dot product of equal shapes");
        self.data.iter().zip(&other.data).map(|(a, b)| a * b).sum()
    }
}

/// Whether reduced axes are kept with size 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// They are kept.
    Yes,
    /// They are removed.
    No,
}

/// Advances `index` to the next index in row-major order; after the last index it wraps to the
/// first.
pub fn advance(index: &mut [usize], shape: &[usize]) {
    for axis in (0..index.len()).rev() {
        index[axis] += 1;
        if index[axis] < shape[axis] {
            return;
        }
        index[axis] = 0;
    }
}

/// Returns the shape of two broadcast operands.
///
/// # Panics
/// If they do not broadcast: a mistake in an oracle.
pub fn broadcast_shape(left: &[usize], right: &[usize]) -> Vec<usize> {
    let rank = left.len().max(right.len());
    let size = |shape: &[usize], axis: usize| {
        let leading = rank - shape.len();
        if axis < leading { 1 } else { shape[axis - leading] }
    };
    (0..rank)
        .map(|axis| match (size(left, axis), size(right, axis)) {
            (a, b) if a == b => a,
            (1, b) => b,
            (a, 1) => a,
            _ => panic!("{left:?} and {right:?} do not broadcast"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(shape: &[usize]) -> Array {
        let mut next = -1.0;
        Array::from_fn(shape, |_| {
            next += 1.0;
            next
        })
    }

    #[test]
    fn permute_moves_elements() {
        let x = counting(&[2, 3]);
        assert_eq!(x.t().data, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(
            counting(&[2, 3, 4]).permute(&[2, 0, 1]).at(&[3, 1, 2]),
            counting(&[2, 3, 4]).at(&[1, 2, 3])
        );
    }

    #[test]
    fn zip_broadcasts_both_sides() {
        let sum = counting(&[2, 1]).zip(&counting(&[3]), |a, b| 10.0 * a + b);
        assert_eq!(
            (sum.shape.as_slice(), sum.data.as_slice()),
            (&[2, 3][..], &[0.0, 1.0, 2.0, 10.0, 11.0, 12.0][..])
        );
    }

    #[test]
    fn map_slices_works_on_every_axis() {
        let x = counting(&[2, 3, 2]);
        let cumulative = |slice: &[f64]| {
            slice
                .iter()
                .scan(0.0, |sum, v| {
                    *sum += v;
                    Some(*sum)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(
            x.map_slices(1, cumulative).at(&[1, 2, 0]),
            x.at(&[1, 0, 0]) + x.at(&[1, 1, 0]) + x.at(&[1, 2, 0])
        );
        assert_eq!(x.map_slices(1, |slice| vec![slice[2]]).shape, [2, 1, 2]);
        assert_eq!(Array::zeros(&[0, 3]).map_slices(1, |slice| slice[..2].to_vec()).shape, [0, 2]);
    }

    #[test]
    fn reduce_over_any_axes() {
        let x = counting(&[2, 3, 2]);
        let sum = |slice: &[f64]| slice.iter().sum();
        assert_eq!(
            x.reduce(&[0, 2], Keep::No, sum).data,
            [0.0 + 1.0 + 6.0 + 7.0, 2.0 + 3.0 + 8.0 + 9.0, 4.0 + 5.0 + 10.0 + 11.0]
        );
        assert_eq!(x.reduce(&[0, 2], Keep::Yes, sum).shape, [1, 3, 1]);
        assert_eq!(x.reduce(&[0, 1, 2], Keep::No, sum).data, [66.0]);
        assert_eq!(Array::zeros(&[2, 0]).reduce(&[1], Keep::No, sum).data, [0.0, 0.0]);
    }
}
