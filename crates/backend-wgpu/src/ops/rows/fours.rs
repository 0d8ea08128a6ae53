//! Rows that lie in fours and stay in registers: which do, how they are dealt to threads, and the launches of exponentials_fours.wgsl, sums_fours.wgsl and
//! norm_grad_fours.wgsl; and reductions that read fours.

use super::cut::Beside;
use super::{Bound, Cut, Finish, Rows, Where};
use crate::gpu::Gpu;
use crate::linker::Class;
use crate::pipelines::Define;
use crate::slots::{Access, Store};
use ternion_core::Result;
use ternion_core::backend::Buffer;
use wgpu::Limits;

/// Elements from which on such a shader is worth being compiled.
const MANY: usize = 1 << 14;
/// Threads of a work group, unless a row has more.
const THREADS: u32 = 256;
/// The most threads of a row.
pub(crate) const MOST_THREADS: u32 = 512;
/// Threads that fill a device: fewer of them hold less each.
const BUSY: usize = 1 << 15;
/// Work groups that walk over rows: twice as many as large devices have processors.
const WALKING: u32 = 264;
/// Few rows that are longer are done by several work groups each.
const ALONE: usize = 8192;
const FEW: usize = 128;

/// Elements that a thread reduces at least, of many rows and of few: eight fours and two.
const EACH_REDUCED: [usize; 2] = [32, 8];

/// A shader that holds rows, and the names of what a family puts into it.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) file: &'static str,
    /// The tensors that it takes by fours: y, if it is written, x and others.
    pub(crate) fours: &'static [&'static str],
    /// Whether rows may be longer than what their threads hold, or begin in the middle of a four.
    pub(crate) any: bool,
    /// Threads of a row, at most.
    pub(crate) most_threads: u32,
    /// VALUES, and the same of exponentials that were kept.
    pub(crate) values: &'static str,
    pub(crate) kept_values: Option<&'static str>,
    /// The element that is made by itself where a row is not finite.
    pub(crate) strange: Option<&'static str>,
    pub(crate) texts: &'static [(&'static str, &'static str)],
    pub(crate) numbers: &'static [(&'static str, u32)],
}

/// How a row is dealt to threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deal {
    threads: u32,
    members: u32,
    hold: u32,
    /// Whether all threads hold as much.
    exact: bool,
    edges: bool,
    long: bool,
    batch: u32,
}

/// How many fours a thread holds.
struct Holds {
    /// Where a row has as many threads as it likes.
    each: usize,
    /// At most.
    most: usize,
    /// Of a row that is longer.
    long: usize,
    /// Of what it does not hold of such a row, at a time.
    batch: usize,
}

impl Holds {
    fn of(per_word: usize) -> Holds {
        match per_word {
            2 => Holds { each: 8, most: 8, long: 2, batch: 8 },
            _ => Holds { each: 4, most: 8, long: 2, batch: 4 },
        }
    }
}

/// The largest work group that such shaders take: a power of two.
fn most_threads(gpu: &Gpu) -> u32 {
    let Limits {
        max_compute_invocations_per_workgroup: threads, max_compute_workgroup_size_x: beside, ..
    } = gpu.limits;
    1 << threads.min(beside).clamp(1, MOST_THREADS).ilog2()
}

impl Deal {
    /// For so many rows of `length` elements, `per_word` in a word. None where threads cannot hold them and must.
    fn of(gpu: &Gpu, [rows, length]: [usize; 2], per_word: usize, edges: bool, held: &Held) -> Option<Deal> {
        let Holds { each, most, long: long_hold, batch } = Holds::of(per_word);
        let fours = if edges { length.div_ceil(4) + 1 } else { length / 4 };
        let most_members = most_threads(gpu).min(held.most_threads) as usize;
        let each = if rows * fours.div_ceil(each) < BUSY { each / 2 } else { each };
        let members = fours.div_ceil(each).next_power_of_two().min(most_members);
        let hold = fours.div_ceil(members);
        let long = hold > most;
        let deal = Deal {
            threads: THREADS.min(held.most_threads).max(members as u32).min(most_threads(gpu)),
            members: members as u32,
            hold: if long { long_hold } else { hold } as u32,
            batch: batch as u32,
            exact: !edges && fours == members * hold,
            edges,
            long,
        };
        (held.any || !long).then_some(deal)
    }

    /// For teams that walk over rows: less each, since sums and the next row are held, too.
    fn walking(gpu: &Gpu, length: usize) -> Option<Deal> {
        let most_members = most_threads(gpu) as usize;
        let fours = length / 4;
        let members = fours.div_ceil(2).next_power_of_two().min(most_members);
        let hold = fours.div_ceil(members);
        let deal = Deal {
            threads: THREADS.max(members as u32).min(most_threads(gpu)),
            members: members as u32,
            hold: hold as u32,
            exact: fours == members * hold,
            edges: false,
            long: false,
            batch: 1,
        };
        (hold <= 4).then_some(deal)
    }

    /// `cut` dealt so, to `most` work groups that walk over rows if there are more.
    fn cut(self, cut: Cut, most: u32) -> Cut {
        let per_group = self.threads / self.members;
        let blocks = cut.rows.div_ceil(per_group).min(most);
        let gathered = cut.rows.div_ceil(blocks * per_group);
        Cut { members: self.members, per_group, parts: 1, blocks, gathered, ..cut }
    }

    fn defines(self, gpu: &Gpu) -> [(&'static str, Define); 10] {
        let by = |in_subgroups, in_memory| {
            Define::Text(if gpu.subgroup.is_some() { in_subgroups } else { in_memory })
        };
        let subgroup = gpu.subgroup.unwrap_or(1);
        [
            ("THREADS", Define::Number(self.threads)),
            ("MEMBERS", Define::Number(self.members)),
            ("HOLD", Define::Number(self.hold)),
            ("EXACT", Define::Flag(self.exact)),
            ("EDGES", Define::Flag(self.edges)),
            ("SUBGROUP", Define::Number(subgroup)),
            ("TEAM_MEMORY", Define::Number(2 * self.threads.div_ceil(subgroup))),
            ("TEAM_MAX", by("team_max_of_subgroups", "team_max_in_memory")),
            ("TEAM_SUM", by("team_sum_of_subgroups", "team_sum_in_memory")),
            ("TEAM_SUMS", by("team_sums_of_subgroups", "team_sums_in_memory")),
        ]
    }
}

/// Functions of elements that lie as `store` tells. PADDING is what stands beside a row: the lowest number, or 0.
fn dtype_defines(store: Store, lowest: bool) -> [(&'static str, &'static str); 8] {
    let [four, words, padding] = match store {
        Store::F16 => ["four_of_f16", "words_of_f16", "vec2<u32>(0xfc00fc00u)"],
        Store::BF16 => ["four_of_bf16", "words_of_bf16", "vec2<u32>(0xff80ff80u)"],
        _ => ["four_of_f32", "words_of_f32", "vec4<u32>(0xff800000u)"],
    };
    let half = store.per_word() == 2;
    let by = |of_halves, of_words| if half { of_halves } else { of_words };
    [
        ("FOUR_OF", four),
        ("WORDS_OF", words),
        ("PADDING", if lowest { padding } else { by("vec2<u32>()", "vec4<u32>()") }),
        ("JOINED", by("joined_halves", "joined_words")),
        ("HIDDEN", by("hidden_halves", "hidden_words")),
        ("EXPONENTIALS", by("exponentials_of_half", "exponentials_of_f32")),
        ("SHARES", by("shares_of_half", "shares_of_f32")),
        ("EXPONENTIALS_OF_ANY", by("exponentials_of_any_half", "exponentials_of_any")),
    ]
}

impl<'a> Rows<'a> {
    /// Queues the shader that holds rows where they lie so that it can; else, as [`Rows::launch`].
    pub(crate) fn launch_held(self, held: &Held, gather: &'static str, finish: Finish) -> Result<()> {
        match self.deal(held) {
            Some(deal) => self.hold(held, deal),
            None => self.launch(gather, finish),
        }
    }

    fn deal(&self, held: &Held) -> Option<Deal> {
        let (rows, length) = (self.cut.rows as usize, self.cut.length as usize);
        let several = self.cut.parts > 1 && length > ALONE && rows < FEW;
        if self.cut.across != 0 || several || rows * length < MANY {
            return None;
        }
        let (store, edges) = self.in_fours(held.fours)?;
        let deal = Deal::of(self.gpu, [rows, length], store.per_word(), edges, held)?;
        (held.any || !edges).then_some(deal)
    }

    /// How the elements of these tensors lie if they all do so by fours; and whether rows begin and end in the middle of one, in all tensors alike.
    fn in_fours(&self, names: &[&str]) -> Option<(Store, bool)> {
        let (space, rank, over) = (&self.parameters.space, self.parameters.rank, &self.parameters.over);
        let mut store = None;
        // Where rows begin in a four, by tensor: the first one, and from one to the next along each axis.
        let mut begins: Option<[u32; 9]> = None;
        for bound in self.outputs.iter().chain(&self.inputs).filter(|bound| names.contains(&bound.name)) {
            let mut begin = [0; 9];
            begin[8] = bound.first % 4;
            if let Where::Space(tensor) = bound.place {
                let moves = |axis: &usize| space.sizes[*axis] > 1;
                (0..rank as usize)
                    .filter(moves)
                    .for_each(|axis| begin[axis] = space.strides[tensor][axis] % 4);
                if self.parameters.over_rank != 1 || over.strides[tensor][0] != 1 {
                    return None;
                }
            }
            let alike = begins.is_none_or(|begins| begins == begin);
            let known = store.is_none_or(|store| store == bound.store);
            if !alike || !known || !self.gpu.is_one_binding(&bound.binding) {
                return None;
            }
            (begins, store) = (Some(begin), Some(bound.store));
        }
        let edges = begins? != [0; 9] || !self.cut.length.is_multiple_of(4);
        Some((store?, edges))
    }

    /// Declares these tensors by fours.
    fn by_fours(&mut self, names: &[&str]) {
        for bound in self.outputs.iter_mut().chain(&mut self.inputs) {
            if names.contains(&bound.name) {
                bound.access = if bound.access.writes() { Access::FoursWritten } else { Access::Fours };
            }
        }
    }

    fn hold(mut self, held: &Held, deal: Deal) -> Result<()> {
        self.file = held.file;
        let keeps = held.kept_values.filter(|_| !deal.long);
        let writes = held.fours.contains(&"y");
        let strange = held.strange.filter(|_| writes);
        if writes && (deal.edges || strange.is_some()) {
            self.bind_edges();
        }
        // Of two texts of a name the first is meant.
        self.define(held.texts);
        self.define(&[
            ("VALUES", keeps.unwrap_or(held.values)),
            ("VALUE", strange.unwrap_or_default()),
            ("PUT", if deal.edges { "put_four_within" } else { "put_four" }),
        ]);
        let store = self.inputs.iter().find(|bound| bound.name == "x").map_or(Store::F32, |x| x.store);
        if strange.is_some() && store == Store::BF16 {
            self.define(&[("WORDS_OF", "words_of_number_bf16")]);
        }
        self.define(&dtype_defines(store, held.file == "exponentials_fours.wgsl"));
        let numbers = [
            ("LONG", deal.long.into()),
            ("BATCH", deal.batch),
            ("KEEP", keeps.is_some().into()),
            ("STRANGE", strange.is_some().into()),
            ("ELEMENTS", writes.into()),
        ];
        let numbers = held.numbers.iter().copied().chain(numbers);
        self.defines.extend(numbers.map(|(name, number)| (name, Define::Number(number))));
        self.defines.extend(deal.defines(self.gpu));
        self.by_fours(held.fours);
        self.parameters.cut = deal.cut(self.cut, u32::MAX);
        self.queue("", "", None)
    }

    fn define(&mut self, texts: &[(&'static str, &'static str)]) {
        self.defines.extend(texts.iter().map(|&(name, text)| (name, Define::Text(text))));
    }

    /// Binds y once more, for what is written element by element.
    fn bind_edges(&mut self) {
        let Some(y) = self.outputs.iter().find(|bound| bound.name == "y") else { return };
        let (store, binding, first) = (y.store, y.binding, y.first);
        let (access, place) = (Access::Scattered, Where::Elsewhere);
        self.outputs.push(Bound { name: "edges", store, access, binding, first, place });
    }

    /// Queues a reduction: by fours where x lies so that rows of it can be read so, else as [`Rows::launch`].
    pub(crate) fn launch_reduction(mut self, gather: &'static str, finish: Finish) -> Result<()> {
        let Some(cut) = self.reduced_by_fours().filter(|_| gather == "reduce_gather") else {
            return self.launch(gather, finish);
        };
        (self.cut, self.parameters.cut) = (cut, cut);
        self.by_fours(&["x"]);
        self.launch("reduce_fours_gather", finish)
    }

    fn reduced_by_fours(&self) -> Option<Cut> {
        let (rows, length) = (self.cut.rows as usize, self.cut.length as usize);
        if self.class != Class::Float || self.cut.across != 0 || rows * length < MANY {
            return None;
        }
        let (_, false) = self.in_fours(&["x"])? else { return None };
        let cut = Cut::dealt(rows, length, Beside::Elements, EACH_REDUCED);
        (cut.parts == 1 || cut.per_part.is_multiple_of(4)).then_some(cut)
    }

    /// Teams that walk over all rows by fours, each thread with its columns in registers; and how. None where rows do not lie so, or are too long.
    pub(crate) fn walking(&self, names: &[&str]) -> Option<Walk> {
        let (rows, length) = (self.cut.rows as usize, self.cut.length as usize);
        let (store, false) = self.in_fours(names)? else { return None };
        if rows * length < MANY {
            return None;
        }
        let deal = Deal::walking(self.gpu, length)?;
        Some(Walk { deal, cut: deal.cut(self.cut, WALKING), store })
    }

    /// Queues norm_grad_fours.wgsl, which leaves sums of teams in `parts`.
    pub(crate) fn launch_walk(mut self, walk: &Walk, names: &[&str], parts: &Buffer) -> Result<()> {
        self.file = "norm_grad_fours.wgsl";
        self.by_fours(names);
        self.define(&dtype_defines(walk.store, false));
        self.defines.extend(walk.deal.defines(self.gpu));
        self.parameters.cut = walk.cut;
        self.queue("", "", Some((parts, Access::FoursWritten)))
    }
}

/// How teams walk over rows.
pub(crate) struct Walk {
    deal: Deal,
    cut: Cut,
    store: Store,
}

impl Walk {
    pub(crate) fn teams(&self) -> usize {
        self.cut.blocks as usize * self.cut.per_group as usize
    }
}
