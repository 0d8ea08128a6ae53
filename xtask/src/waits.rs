//! Finds out where the kernels of a dependent launch wait for earlier launches. This reads machine
//! code of compute capability 9.0, because a compiler may move instructions relative to the source.
//! An instruction has 128 bits; the numbers are those of nvdisasm of CUDA 13.

/// The architecture whose instructions are read.
pub const ARCHITECTURE: &str = "sm_90a";

/// The text of this file: its results are valid only for images that were checked with the same
/// version of it.
pub const CHECKS: &str = include_str!("waits.rs");

/// A 64-bit ELF image.
struct Image<'a>(&'a [u8]);

impl<'a> Image<'a> {
    fn number(&self, at: usize, bytes: usize) -> usize {
        self.0[at..at + bytes].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
    }

    /// Returns the bytes of a section.
    fn section(&self, name: &str) -> Option<&'a [u8]> {
        let (headers, size) = (self.number(0x28, 8), self.number(0x3a, 2));
        let (count, names) = (self.number(0x3c, 2), self.number(0x3e, 2));
        let header = |index: usize| headers + index * size;
        let names = self.number(header(names) + 0x18, 8);
        let has_name = |&index: &usize| {
            let bytes = &self.0[names + self.number(header(index), 4)..];
            bytes.starts_with(name.as_bytes()) && bytes.get(name.len()) == Some(&0)
        };
        let found = header((0..count).find(has_name)?);
        let start = self.number(found + 0x18, 8);
        self.0.get(start..start + self.number(found + 0x20, 8))
    }
}

/// An instruction: its first and its last 64 bits.
#[derive(Clone, Copy)]
struct Instruction(u64, u64);

impl Instruction {
    /// Returns the operation, independent of its kinds of operands.
    fn opcode(self) -> u16 {
        (self.0 & 0x1ff) as u16
    }

    /// Returns whether threads skip it by a predicate.
    fn is_predicated(self) -> bool {
        self.0 >> 12 & 0xf != 7
    }

    /// Returns whether it is a load that may not see writes of other threads: LDG.CONSTANT.
    fn is_incoherent_load(self) -> bool {
        self.opcode() == LDG && self.1 >> 13 & 7 == 4
    }

    /// Returns the target of a branch at instruction `at`.
    fn target(self, at: usize) -> i64 {
        let bytes = ((self.0 as i64 >> 34) << 8 | (self.0 >> 16 & 0xff) as i64) * 4;
        at as i64 + 1 + bytes / 16
    }
}

const ACQBULK: u16 = 0x2e;
const BRA: u16 = 0x147;
const LDG: u16 = 0x181;
/// The first 64 bits of CCTL.IVALL, which invalidates the L1 cache, after the cluster's barrier.
/// (Other CCTLs read.)
const CCTL_IVALL: u64 = 0x0000_0000_ff00_798f;

/// The instructions that may precede a wait: none of them reads or writes global memory, or leaves
/// the paths to the wait.
const AHEAD_OF_THE_WAIT: &[(u16, &str)] = &[
    (0x02, "MOV"),
    (0x03, "P2R"),
    (0x05, "CS2R"),
    (0x07, "SEL"),
    (0x0c, "ISETP"),
    (0x10, "IADD3"),
    (0x11, "LEA"),
    (0x12, "LOP3"),
    (0x16, "PRMT"),
    (0x19, "SHF"),
    (0x1c, "PLOP3"),
    (0x20, "FMUL, of the cluster's number"),
    (0x24, "IMAD"),
    (0x25, "IMAD.WIDE"),
    (0x27, "IMAD.HI"),
    (0x2d, "PREEXIT"),
    (0x35, "HFMA2, a constant"),
    (0x36, "VIADD"),
    (0x3e, "F2FP, a constant"),
    (0x45, "I2FP, of the cluster's number"),
    (0x46, "VIADDMNMX"),
    (0x48, "VIMNMX"),
    (0x82, "UMOV"),
    (0x87, "USEL"),
    (0x8c, "UISETP"),
    (0x90, "UIADD3"),
    (0x91, "ULEA"),
    (0x92, "ULOP3"),
    (0x96, "UPRMT"),
    (0x99, "USHF"),
    (0xa4, "UIMAD"),
    (0xa5, "UIMAD.WIDE"),
    (0xb9, "ULDC"),
    (0xbb, "ULDC"),
    (0xca, "R2UR"),
    (0x105, "F2I"),
    (0x106, "I2F"),
    (0x108, "MUFU, of divisions"),
    (0x118, "NOP"),
    (0x119, "S2R"),
    (0x11d, "BAR, of the block"),
    (0x141, "BSYNC"),
    (0x145, "BSSY"),
    (BRA, "BRA"),
    (0x148, "WARPSYNC"),
    (0x182, "LDC, parameters"),
    (0x189, "SHFL"),
    (0x1b2, "SYNCS, barriers in shared memory"),
    (0x1b9, "UTMACCTL, the prefetch of a tensor map among the parameters"),
    (0x1c3, "S2UR"),
    (0x1c6, "FENCE, of shared memory"),
    (0x1c7, "UCGABAR_ARV and UCGABAR_WAIT, the cluster's barrier"),
];

/// Returns what lets a kernel access global memory before the previous launch has ended.
pub fn fault(image: &[u8], kernel: &str) -> Option<String> {
    let image = Image(image);
    let Some(code) = image.section(&format!(".text.{kernel}")) else { return Some("it has no code".into()) };
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
    let instructions: Vec<Instruction> =
        code.chunks_exact(16).map(|bytes| Instruction(word(&bytes[..8]), word(&bytes[8..]))).collect();
    // Tables of the module, such as that of sines, are never written.
    let has_tables = image.section(".nv.global.init").is_some();
    fault_in(&instructions, has_tables)
}

/// Follows every path from the first instruction to its wait. Warps may take several paths, each
/// with its own wait.
fn fault_in(instructions: &[Instruction], has_tables: bool) -> Option<String> {
    if !instructions.iter().any(|instruction| instruction.opcode() == ACQBULK) {
        return Some("it never waits".into());
    }
    let mut is_reached = vec![false; instructions.len()];
    let mut paths = vec![0];
    while let Some(at) = paths.pop() {
        let Some(instruction) = instructions.get(at) else { return Some("a path leaves the code".into()) };
        if std::mem::replace(&mut is_reached[at], true) {
            continue;
        }
        match following(*instruction, at) {
            Ok(next) => paths.extend(next),
            Err(fault) => return Some(fault),
        }
    }
    let incoherent = instructions.iter().position(|instruction| instruction.is_incoherent_load());
    incoherent
        .filter(|_| !has_tables)
        .map(|at| format!("the load {at} may read what a cache had before the wait"))
}

/// Returns the instructions that may follow one that runs before a wait; none if the instruction is
/// the wait.
fn following(instruction: Instruction, at: usize) -> Result<Vec<usize>, String> {
    let opcode = instruction.opcode();
    match opcode {
        ACQBULK if instruction.is_predicated() => Err("not every thread waits".into()),
        ACQBULK => Ok(Vec::new()),
        BRA => {
            let target = usize::try_from(instruction.target(at));
            let target = target.map_err(|_| format!("the branch {at} leaves the code"))?;
            let passes = instruction.is_predicated().then_some(at + 1);
            Ok(passes.into_iter().chain([target]).collect())
        }
        _ if instruction.0 == CCTL_IVALL => Ok(vec![at + 1]),
        _ if AHEAD_OF_THE_WAIT.iter().any(|&(allowed, _)| allowed == opcode) => Ok(vec![at + 1]),
        _ => Err(format!("instruction {at}, of opcode {opcode:#x}, is ahead of a wait")),
    }
}

#[test]
fn accesses_ahead_of_a_wait_are_found() {
    let plain = |opcode: u64| Instruction(opcode | 7 << 12, 0);
    let (wait, load, end) = (plain(0x82e), plain(0x981), plain(0x94d));
    let branch = |instructions: i64| {
        let words = instructions * 4;
        Instruction(0x7947 | (words as u64 & 0xff) << 16 | ((words >> 8) << 34) as u64, 0)
    };
    let of = |instructions: &[Instruction]| fault_in(instructions, false);
    assert_eq!(of(&[plain(0xb82), wait, load, end]), None);
    assert_eq!(of(&[plain(0xb82), branch(1), plain(0x202), wait, load, end]), None);
    assert!(of(&[load, end]).is_some_and(|fault| fault.contains("never waits")));
    assert!(of(&[plain(0x202), load, wait, end]).is_some_and(|fault| fault.contains("instruction 1, of")));
    assert!(of(&[end, wait]).is_some_and(|fault| fault.contains("0x14d")));
    assert!(of(&[branch(1), wait, load]).is_some_and(|fault| fault.contains("instruction 2, of")));
    assert!(of(&[branch(1000), wait, load]).is_some_and(|fault| fault.contains("leaves the code")));
    assert!(of(&[plain(0xb82), branch(-3), wait]).is_some_and(|fault| fault.contains("leaves the code")));
    // Two paths: both wait, only one waits, and they join before a wait; a loop.
    let perhaps = |instructions: i64| Instruction(branch(instructions).0 & !(7 << 12), 0);
    assert_eq!(of(&[perhaps(2), wait, branch(1), wait, load, end]), None);
    assert!(of(&[perhaps(2), wait, branch(1), plain(0x202), load, end]).is_some());
    assert_eq!(of(&[perhaps(1), plain(0x202), wait, load, end]), None);
    assert_eq!(of(&[plain(0x202), perhaps(-2), wait, load, end]), None);
    assert!(of(&[Instruction(0x82e, 0), load]).is_some_and(|fault| fault.contains("not every thread")));
    let incoherent = Instruction(load.0, 4 << 13);
    assert!(of(&[wait, incoherent]).is_some_and(|fault| fault.contains("a cache had")));
    assert_eq!(fault_in(&[wait, incoherent], true), None);
    // From nvdisasm: at 0x60 to 0x120, at 0x410 to 0x6130, at 0x460 back to 0x430.
    assert_eq!(Instruction(0x0000_0000_002c_0947, 0).target(0x6), 0x12);
    assert_eq!(Instruction(0x0000_005c_0044_8947, 0).target(0x41), 0x613);
    assert_eq!(Instruction(0xffff_fffc_00f0_8947, 0).target(0x46), 0x43);
}
