//! Recurrent layers.

use super::dropout::Dropout;
use crate::init::Init;
use crate::module::{Forward, Module, Param, Visitor, in_layer};
use ternion_core::{DType, Device, Error, Result, Tensor};

/// Configuration of an [`LSTM`] or a [`GRU`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecurrentConfig {
    /// Number of layers, each of which reads the outputs of the previous one; 1 by default.
    pub layers: usize,
    /// Whether the layers have biases; true by default.
    pub bias: bool,
    /// The probability that an output of a layer other than the last is set to 0 in training mode;
    /// 0 by default.
    pub dropout: f64,
    /// Whether each layer also reads the sequence in reverse, and concatenates these outputs after
    /// the forward ones; false by default.
    pub bidirectional: bool,
    /// Element type of the parameters; f32 by default.
    pub dtype: DType,
}

impl Default for RecurrentConfig {
    fn default() -> Self {
        RecurrentConfig { layers: 1, bias: true, dropout: 0.0, bidirectional: false, dtype: DType::F32 }
    }
}

/// The parameters of one layer in one direction. The rows of all gates are concatenated.
#[derive(Debug)]
struct Cell {
    /// `[gates * width, inputs]` and `[gates * width, width]`.
    weights: [Param; 2],
    /// `[gates * width]` each.
    biases: Option<[Param; 2]>,
}

/// All layers of a recurrent network. LSTM and GRU cells differ in the number of gates.
#[derive(Debug)]
struct Cells {
    /// In order of layers; for a bidirectional layer the forward cell, then the reverse cell.
    cells: Vec<Cell>,
    width: usize,
    directions: usize,
    dropout: Dropout,
}

impl Cells {
    fn new([inputs, width, gates]: [usize; 3], config: RecurrentConfig, device: &Device) -> Result<Cells> {
        if config.layers == 0 || width == 0 {
            let detail = format!("{} layers of width {width}, expected at least 1 each", config.layers);
            return Err(Error::invalid("recurrent", detail));
        }
        let directions = if config.bidirectional { 2 } else { 1 };
        let bound = 1.0 / (width as f64).sqrt();
        let init = Init::Uniform { low: -bound, high: bound };
        let param = |shape: &[usize]| Param::new(&init.tensor(shape, config.dtype, device)?);
        let rows = gates * width;
        let cell = |index: usize| {
            let inputs = if index < directions { inputs } else { directions * width };
            let weights = [param(&[rows, inputs])?, param(&[rows, width])?];
            let biases =
                config.bias.then(|| Ok::<_, Error>([param(&[rows])?, param(&[rows])?])).transpose()?;
            Ok(Cell { weights, biases })
        };
        let cells = (0..config.layers * directions).map(cell).collect::<Result<_>>()?;
        Ok(Cells { cells, width, directions, dropout: Dropout::new(config.dropout)? })
    }

    /// Visits all parameters. The key of a cell is determined by its layer and a suffix for reverse
    /// cells.
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (index, cell) in self.cells.iter().enumerate() {
            let (layer, reverse) = (index / self.directions, index % self.directions == 1);
            let suffix = if reverse { "_reverse" } else { "" };
            for (name, param) in ["ih", "hh"].into_iter().zip(&cell.weights) {
                visitor.field(format_args!("weight_{name}_l{layer}{suffix}"), param);
            }
            for (name, param) in ["ih", "hh"].into_iter().zip(cell.biases.iter().flatten()) {
                visitor.field(format_args!("bias_{name}_l{layer}{suffix}"), param);
            }
        }
        visitor.field("dropout", &self.dropout);
    }

    /// Runs all layers over `[batch, length, inputs]` from `states`, each `[cells, batch, width]`.
    /// `step` computes the new states of a cell from its old states and its input, which has
    /// already been multiplied by the weight with the bias added. The first state is the output.
    /// Returns the outputs `[batch, length, directions * width]` and the last states.
    fn run(
        &self,
        op: &'static str,
        input: &Tensor,
        states: &[Tensor],
        step: impl Fn(&Tensor, &Cell, &[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let [batch, length, _] = input.shape().to_array(op)?;
        let expected = [self.cells.len(), batch, self.width];
        if let Some(state) = states.iter().find(|state| state.dims() != expected) {
            let detail = format!("a state of shape {:?}, expected {expected:?}", state.shape());
            return Err(Error::invalid(op, detail));
        }
        if length == 0 {
            return Err(Error::invalid(op, "a sequence of length 0, expected at least 1"));
        }
        let (mut x, mut last) = (input.clone(), Vec::with_capacity(self.cells.len()));
        for (layer, cells) in self.cells.chunks(self.directions).enumerate() {
            if layer > 0 {
                x = self.dropout.forward(&x)?;
            }
            let mut outputs = Vec::with_capacity(cells.len());
            for (direction, cell) in cells.iter().enumerate() {
                let index = layer * self.directions + direction;
                let initial =
                    states.iter().map(|state| state.select(0, index)).collect::<Result<Vec<_>>>()?;
                let (output, end) = cell.read(&x, initial, direction == 1, &step)?;
                outputs.push(output);
                last.push(end);
            }
            x = Tensor::concat(&outputs.iter().collect::<Vec<_>>(), -1)?;
        }
        let stack_cells = |index: usize| -> Result<Tensor> {
            let of_cells: Vec<&Tensor> = last.iter().map(|states: &Vec<Tensor>| &states[index]).collect();
            Tensor::stack(&of_cells, 0)
        };
        Ok((x, (0..states.len()).map(stack_cells).collect::<Result<_>>()?))
    }

    /// Returns a state of zeros.
    fn zeros(&self, input: &Tensor) -> Result<Tensor> {
        let batch = input.dims().first().copied().unwrap_or(0);
        Tensor::zeros([self.cells.len(), batch, self.width], input.dtype(), input.device())
    }
}

impl Cell {
    /// Reads a sequence, from its end if `reverse`. Returns the outputs `[batch, length, width]` in
    /// the order of the sequence, and the last states.
    fn read(
        &self,
        input: &Tensor,
        mut states: Vec<Tensor>,
        reverse: bool,
        step: impl Fn(&Tensor, &Cell, &[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let bias = self.biases.as_ref().map(|[bias, _]| bias.tensor());
        // The input projections of all steps in one product.
        let projected = input.linear(&self.weights[0].tensor(), bias.as_ref())?;
        let length = projected.dims()[1];
        let mut outputs = Vec::with_capacity(length);
        for at in 0..length {
            let at = if reverse { length - 1 - at } else { at };
            states = step(&projected.select(1, at)?, self, &states)?;
            outputs.push(states[0].clone());
        }
        if reverse {
            outputs.reverse();
        }
        Ok((Tensor::stack(&outputs.iter().collect::<Vec<_>>(), 1)?, states))
    }

    /// Returns the recurrent projection of the last output with its bias: `[batch, gates * width]`.
    fn project_state(&self, state: &Tensor) -> Result<Tensor> {
        let bias = self.biases.as_ref().map(|[_, bias]| bias.tensor());
        state.linear(&self.weights[1].tensor(), bias.as_ref())
    }
}

/// Long short-term memory, as PyTorch's `nn.LSTM` with `batch_first` (Hochreiter and Schmidhuber
/// 1997; with the forget gate of Gers et al. 2000). The rows of the weights are those of the input,
/// forget, cell and output gates. All parameters are initialized uniformly on
/// `-1/sqrt(width)..1/sqrt(width)`.
#[derive(Debug)]
pub struct LSTM(Cells);

impl LSTM {
    /// Creates one layer from rows of `inputs` to rows of `width` columns, with PyTorch's defaults.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted.
    pub fn new(inputs: usize, width: usize, device: &Device) -> Result<LSTM> {
        LSTM::with_config(inputs, width, RecurrentConfig::default(), device)
    }

    /// Creates layers from rows of `inputs` to rows of `width` columns, or `2 * width` if
    /// bidirectional.
    ///
    /// # Errors
    /// Returns an error if there are no layers, the width is 0, the dropout is outside `0..=1`, the
    /// dtype is not floating, or memory is exhausted.
    pub fn with_config(
        inputs: usize,
        width: usize,
        config: RecurrentConfig,
        device: &Device,
    ) -> Result<LSTM> {
        Ok(LSTM(Cells::new([inputs, width, 4], config, device)?))
    }

    /// Returns the outputs of the last layer, and the hidden and cell states of every layer after
    /// the last element. Without `states` the initial states are 0.
    ///
    /// # Shapes
    /// `[batch, length, inputs]`, states `[layers * directions, batch, width]` each `-> [batch,
    /// length, directions * width]`, states
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, or if the sequence is empty.
    pub fn run(&self, input: &Tensor, states: Option<[&Tensor; 2]>) -> Result<(Tensor, [Tensor; 2])> {
        let states = match states {
            Some(states) => states.map(Tensor::clone),
            None => [self.0.zeros(input)?, self.0.zeros(input)?],
        };
        let (output, last) = self.0.run("lstm", input, &states, |input, cell, states| {
            let gates = input.add(&cell.project_state(&states[0])?)?.chunk(1, 4)?;
            let remembered = gates[1].sigmoid()?.mul(&states[1])?;
            let new_cell_state = remembered.add(&gates[0].sigmoid()?.mul(&gates[2].tanh()?)?)?;
            Ok(vec![gates[3].sigmoid()?.mul(&new_cell_state.tanh()?)?, new_cell_state])
        })?;
        let [output_state, cell_state] = output_and_cell_state(last)?;
        Ok((output, [output_state, cell_state]))
    }
}

fn output_and_cell_state(states: Vec<Tensor>) -> Result<[Tensor; 2]> {
    states.try_into().map_err(|_| Error::invalid("lstm", "expected 2 states"))
}

/// Gated recurrent units, as PyTorch's `nn.GRU` with `batch_first` (Cho et al. 2014, with the reset
/// gate applied after the product). The rows of the weights are those of the reset, update and new
/// gates. All parameters are initialized uniformly on `-1/sqrt(width)..1/sqrt(width)`.
#[derive(Debug)]
pub struct GRU(Cells);

impl GRU {
    /// Creates one layer from rows of `inputs` to rows of `width` columns, with PyTorch's defaults.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted.
    pub fn new(inputs: usize, width: usize, device: &Device) -> Result<GRU> {
        GRU::with_config(inputs, width, RecurrentConfig::default(), device)
    }

    /// Creates layers from rows of `inputs` to rows of `width` columns, or `2 * width` if
    /// bidirectional.
    ///
    /// # Errors
    /// Returns an error if there are no layers, the width is 0, the dropout is outside `0..=1`, the
    /// dtype is not floating, or memory is exhausted.
    pub fn with_config(inputs: usize, width: usize, config: RecurrentConfig, device: &Device) -> Result<GRU> {
        Ok(GRU(Cells::new([inputs, width, 3], config, device)?))
    }

    /// Returns the outputs of the last layer, and the hidden states of every layer after the last
    /// element. Without a `state` the initial states are 0.
    ///
    /// # Shapes
    /// `[batch, length, inputs]`, state `[layers * directions, batch, width] -> [batch, length,
    /// directions * width]`, state
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, or if the sequence is empty.
    pub fn run(&self, input: &Tensor, state: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let state = state.map_or_else(|| self.0.zeros(input), |state| Ok(state.clone()))?;
        let (output, mut last) = self.0.run("gru", input, &[state], |input, cell, states| {
            let (x, h) = (input.chunk(1, 3)?, cell.project_state(&states[0])?.chunk(1, 3)?);
            let reset = x[0].add(&h[0])?.sigmoid()?;
            let update = x[1].add(&h[1])?.sigmoid()?;
            let new = x[2].add(&reset.mul(&h[2])?)?.tanh()?;
            // (1 - update) new + update old.
            Ok(vec![new.add(&update.mul(&states[0].sub(&new)?)?)?])
        })?;
        Ok((output, last.swap_remove(0)))
    }
}

macro_rules! recurrent {
    ($($name:ident),*) => {
        $(impl Module for $name {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                visitor.layer(stringify!($name), self);
                self.0.visit(visitor);
            }
        }

        impl Forward for $name {
            /// # Shapes
            /// `[batch, length, inputs] -> [batch, length, directions * width]`
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                in_layer(self, stringify!($name), || Ok(self.run(input, None)?.0))
            }
        })*
    };
}
recurrent!(LSTM, GRU);
