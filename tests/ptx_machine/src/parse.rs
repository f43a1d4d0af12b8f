//! Reads instructions from PTX text.
//!
//! The text is the compiler's own output, so only its spelling is understood, and anything else is
//! a panic that quotes the line: an instruction that is skipped or guessed at would make the
//! machine a bad witness. An instruction is a guard, a name and operands. For example, `@%p1
//! add.s32 %r3, %r1, 4` becomes the guard `(p1, true)`, the operation `Add` of a signed type of 32
//! bits, a target register and two operands. Registers are numbered in the order in which they are
//! first named, whatever their type: each holds 64 bits, of which an instruction uses what its type
//! says.

use std::collections::HashMap;

use super::Entry;

pub struct Instruction {
    /// Predicate register, and the value that it must have for the instruction to be executed.
    pub guard: Option<(usize, bool)>,
    pub kind: Kind,
    /// Text of the instruction, for messages.
    pub line: String,
}

#[derive(Clone, Copy)]
pub enum Operand {
    Register(usize),
    Value(u64),
    Special(Special),
}

#[derive(Clone, Copy)]
pub enum Special {
    ThreadX,
    ThreadY,
    BlockDimX,
    BlockDimY,
    BlockX,
    BlockY,
    GridX,
    GridY,
    Lane,
    LanesBelow,
}

#[derive(Clone, Copy)]
pub enum Space {
    Global,
    Shared,
}

#[derive(Clone, Copy)]
pub struct Type {
    pub bits: u32,
    pub signed: bool,
}

impl Type {
    pub const fn bytes(self) -> usize {
        self.bits as usize / 8
    }

    fn of(name: &str) -> Self {
        if name == "pred" {
            return Self {
                bits: 1,
                signed: false,
            };
        }
        Self {
            bits: name[1..].parse().unwrap_or_else(|_| panic!("type {name}")),
            signed: name.starts_with('s'),
        }
    }
}

#[derive(Clone, Copy)]
pub enum Op {
    Move,
    Add,
    Sub,
    Mul,
    MulWide,
    MulHigh,
    Mad,
    MadWide,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Not,
    Negate,
    Abs,
    LeadingZeros,
    Reverse,
    Shl,
    Shr,
    /// Shift of two words as one. First field: to the left; second: the distance is taken modulo
    /// 32.
    FunnelShift(bool, bool),
    BitField,
    InsertBits,
    Permute,
    CountOnes,
    Select,
    /// Value from its two halves.
    Pack,
    Exchange,
    CompareExchange,
    Convert(Type),
    IntToFloat(Type),
    /// Number of bits of the float, and rounding.
    FloatToInt(u32, Round),
    FloatToFloat(u32),
    Float(Float),
    Compare(Cmp),
    /// Comparison of floats, and its result if either is NaN.
    CompareFloat(Cmp, bool),
    /// Test that neither float is NaN (true), or that at least one is (false).
    AreNumbers(bool),
}

#[derive(Clone, Copy)]
pub enum Float {
    Add,
    Sub,
    Mul,
    Div,
    Fma,
    Min,
    Max,
    Negate,
    Abs,
    Sqrt,
    ReciprocalSqrt,
    Reciprocal,
    Round(Round),
}

#[derive(Clone, Copy)]
pub enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

impl Round {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "rni" => Self::Nearest,
            "rzi" => Self::Zero,
            "rmi" => Self::Down,
            "rpi" => Self::Up,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy)]
pub enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Cmp {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "eq" => Self::Eq,
            "ne" => Self::Ne,
            "lt" | "lo" => Self::Lt,
            "le" | "ls" => Self::Le,
            "gt" | "hi" => Self::Gt,
            "ge" | "hs" => Self::Ge,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy)]
pub enum Shuffle {
    Up,
    Down,
    Index,
    Xor,
}

pub enum Kind {
    Compute {
        op: Op,
        ty: Type,
        to: usize,
        from: Vec<Operand>,
    },
    Unpack {
        low: Option<usize>,
        high: Option<usize>,
        from: Operand,
        half_bits: u32,
    },
    LoadParameter {
        ty: Type,
        to: usize,
        parameter: usize,
        offset: usize,
    },
    /// Load. `read_only`: through the read-only cache. Several registers take consecutive values.
    Load {
        space: Space,
        read_only: bool,
        ty: Type,
        to: [Option<usize>; 4],
        base: Operand,
        offset: i64,
    },
    Store {
        space: Space,
        ty: Type,
        base: Operand,
        offset: i64,
        /// Values to store, at consecutive addresses.
        from: Vec<Operand>,
    },
    Atomic {
        space: Space,
        op: Op,
        ty: Type,
        to: usize,
        base: Operand,
        offset: i64,
        from: Operand,
        /// New value of a compare-exchange.
        new: Option<Operand>,
    },
    Branch(usize),
    BranchByIndex(Operand, Vec<usize>),
    /// Pause or fence. Blocks run one after the other here, so that whatever a thread waits for has
    /// already been written.
    Pause,
    Return,
    Barrier,
    WarpBarrier(Operand),
    Ballot {
        to: usize,
        predicate: Operand,
        mask: Operand,
    },
    Shuffle {
        mode: Shuffle,
        to: usize,
        value: Operand,
        by: Operand,
        clamp: Operand,
        mask: Operand,
    },
    Match {
        to: usize,
        value: Operand,
        mask: Operand,
    },
    ReduxAdd {
        to: usize,
        value: Operand,
        mask: Operand,
    },
}

impl Kind {
    /// Returns the mask if the instruction is a warp collective.
    pub const fn mask(&self) -> Option<&Operand> {
        match self {
            Self::WarpBarrier(mask)
            | Self::Ballot { mask, .. }
            | Self::Shuffle { mask, .. }
            | Self::Match { mask, .. }
            | Self::ReduxAdd { mask, .. } => Some(mask),
            _ => None,
        }
    }
}

/// Reads all entries of a text, by name.
pub fn entries(text: &str) -> HashMap<String, Entry> {
    text.split(".visible .entry ").skip(1).map(entry).collect()
}

fn entry(text: &str) -> (String, Entry) {
    let (name, rest) = text.split_once('(').expect("an entry has parameters");
    let (parameters, rest) = rest.split_once("\n)\n").expect("parameters end");
    // A limit of registers may stand before the body.
    let (_, rest) = rest.split_once('{').expect("a body");
    let body = rest.split("\n}").next().expect("a body");
    let mut names = Vec::new();
    let mut sizes = Vec::new();
    for line in parameters
        .lines()
        .map(|line| line.trim().trim_end_matches(','))
        .filter(|line| !line.is_empty())
    {
        let last = line.split_whitespace().last().expect("a name");
        let (name, size) = match last.split_once('[') {
            Some((name, size)) => (name, size.trim_end_matches(']').parse().expect("a size")),
            None => (
                last,
                Type::of(
                    line.split_whitespace()
                        .nth(1)
                        .expect("a type")
                        .trim_start_matches('.'),
                )
                .bytes(),
            ),
        };
        names.push(name.to_owned());
        sizes.push(size);
    }
    let mut parser = Parser {
        parameters: names,
        registers: HashMap::new(),
        labels: HashMap::new(),
        tables: HashMap::new(),
    };
    let statements = parser.statements(body);
    let code: Vec<_> = statements
        .iter()
        .map(|statement| parser.instruction(statement))
        .collect();
    let issued = vec![0; code.len()].into();
    (
        name.to_owned(),
        Entry {
            parameters: sizes,
            n_registers: parser.registers.len(),
            code,
            issued,
        },
    )
}

struct Parser {
    parameters: Vec<String>,
    registers: HashMap<String, usize>,
    /// Number of the instruction after each label.
    labels: HashMap<String, usize>,
    /// Labels in each table of branch targets.
    tables: HashMap<String, Vec<String>>,
}

impl Parser {
    /// Splits a body into instructions, and collects labels and tables.
    ///
    /// Takes a label for the number of the instruction that follows it. A branch may come before
    /// its label, so labels are collected here, before any instruction is read.
    fn statements(&mut self, body: &str) -> Vec<String> {
        let mut statements = Vec::new();
        let lines: Vec<_> = body
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty() && !l.starts_with("//"))
            .collect();
        let mut lines = lines.into_iter();
        while let Some(line) = lines.next() {
            if let Some(name) = line.strip_suffix(": .branchtargets") {
                let mut targets = Vec::new();
                for line in lines.by_ref() {
                    targets.push(line.trim_end_matches([',', ';']).to_owned());
                    if line.ends_with(';') {
                        break;
                    }
                }
                self.tables.insert(name.to_owned(), targets);
            } else if let Some(label) = line.strip_suffix(':') {
                self.labels.insert(label.to_owned(), statements.len());
            } else if let Some(scoped) = line
                .strip_prefix("{ .reg .b32 tmp; ")
                .or_else(|| line.strip_prefix("{ .reg .b16 tmp; "))
            {
                statements.push(scoped.trim_end_matches([' ', '}', ';']).to_owned());
            } else if !line.starts_with('.') {
                statements.push(line.trim_end_matches(';').to_owned());
            }
        }
        statements
    }

    fn register(&mut self, name: &str) -> usize {
        assert!(name.starts_with('%'), "{name:?} is not a register");
        let next = self.registers.len();
        *self.registers.entry(name.to_owned()).or_insert(next)
    }

    fn operand(&mut self, text: &str) -> Operand {
        let special = match text {
            "%tid.x" => Special::ThreadX,
            "%tid.y" => Special::ThreadY,
            "%ntid.x" => Special::BlockDimX,
            "%ntid.y" => Special::BlockDimY,
            "%ctaid.x" => Special::BlockX,
            "%ctaid.y" => Special::BlockY,
            "%nctaid.x" => Special::GridX,
            "%nctaid.y" => Special::GridY,
            "%laneid" => Special::Lane,
            "%lanemask_lt" => Special::LanesBelow,
            // Shared memory begins at address 0.
            "block_shared" => return Operand::Value(0),
            _ if text.starts_with('%') => return Operand::Register(self.register(text)),
            "WARP_SZ" => return Operand::Value(32),
            _ => {
                let value = if let Some(hex) = ["0f", "0d", "0x"]
                    .iter()
                    .find_map(|prefix| text.strip_prefix(prefix))
                {
                    u64::from_str_radix(hex, 16)
                } else {
                    text.parse::<u64>()
                        .or_else(|_| text.parse::<i64>().map(|value| value as u64))
                };
                return Operand::Value(value.unwrap_or_else(|_| panic!("operand {text:?}")));
            }
        };
        Operand::Special(special)
    }

    /// Splits `[base+offset]`.
    fn address(text: &str) -> (&str, i64) {
        let inner = text.trim_start_matches('[').trim_end_matches(']');
        match inner.split_once('+') {
            Some((base, offset)) => (base, offset.parse().expect("an offset")),
            None => (inner, 0),
        }
    }

    fn target(&self, label: &str) -> usize {
        *self
            .labels
            .get(label)
            .unwrap_or_else(|| panic!("no label {label}"))
    }

    fn instruction(&mut self, line: &str) -> Instruction {
        let mut rest = line;
        let mut guard = None;
        if let Some(guarded) = line.strip_prefix('@') {
            let (predicate, instruction) = guarded.split_once(' ').expect("a guarded instruction");
            guard = Some((
                self.register(predicate.trim_start_matches('!')),
                !predicate.starts_with('!'),
            ));
            rest = instruction.trim();
        }
        let (name, operands) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        let operands: Vec<_> = operands
            .split(',')
            .map(str::trim)
            .filter(|operand| !operand.is_empty())
            .collect();
        Instruction {
            guard,
            kind: self.kind(name, &operands, line),
            line: line.to_owned(),
        }
    }

    fn kind(&mut self, name: &str, operands: &[&str], line: &str) -> Kind {
        let parts: Vec<_> = name.split('.').collect();
        let ty = || Type::of(parts.last().expect("a type"));
        match (parts[0], parts.get(1).copied().unwrap_or("")) {
            ("bra", _) => Kind::Branch(self.target(operands[0])),
            ("brx", "idx") => {
                let targets = self.tables[operands[1]]
                    .iter()
                    .map(|label| self.target(label))
                    .collect();
                Kind::BranchByIndex(self.operand(operands[0]), targets)
            }
            ("ret", _) => Kind::Return,
            ("nanosleep" | "fence", _) => Kind::Pause,
            ("bar", "sync") => Kind::Barrier,
            ("bar", "warp") => Kind::WarpBarrier(self.operand(operands[0])),
            ("vote" | "shfl" | "match" | "redux", _) => self.collective(name, operands, line),
            ("ld" | "st" | "atom", _) => self.access(&parts, operands, line),
            ("mov", _) if operands[0].starts_with('{') => {
                let mut half = |text: &str| {
                    let name = text.trim_matches(['{', '}', ' ']);
                    (name != "tmp").then(|| self.register(name))
                };
                let (low, high) = (half(operands[0]), half(operands[1]));
                Kind::Unpack {
                    low,
                    high,
                    from: self.operand(operands[2]),
                    half_bits: ty().bits / 2,
                }
            }
            _ => {
                let is_pack =
                    parts[0] == "mov" && operands.get(1).is_some_and(|text| text.starts_with('{'));
                let of = |parts| {
                    if is_pack {
                        Some((Op::Pack, ty()))
                    } else {
                        operation(parts)
                    }
                };
                let (op, ty) =
                    of(&parts).unwrap_or_else(|| panic!("this machine does not know {line:?}"));
                let to = self.register(operands[0]);
                let from = operands[1..]
                    .iter()
                    .map(|text| self.operand(text.trim_matches(['{', '}', ' '])));
                Kind::Compute {
                    op,
                    ty,
                    to,
                    from: from.collect(),
                }
            }
        }
    }

    /// Reads an instruction for which the lanes of a mask come together.
    fn collective(&mut self, name: &str, operands: &[&str], line: &str) -> Kind {
        let parts: Vec<_> = name.split('.').collect();
        match parts[0] {
            "vote" => {
                assert_eq!(name, "vote.sync.ballot.b32");
                let (to, predicate) = (self.register(operands[0]), self.operand(operands[1]));
                Kind::Ballot {
                    to,
                    predicate,
                    mask: self.operand(operands[2]),
                }
            }
            "shfl" => Kind::Shuffle {
                mode: match parts[2] {
                    "up" => Shuffle::Up,
                    "down" => Shuffle::Down,
                    "idx" => Shuffle::Index,
                    "bfly" => Shuffle::Xor,
                    other => panic!("shuffle {other}"),
                },
                to: self.register(operands[0]),
                value: self.operand(operands[1]),
                by: self.operand(operands[2]),
                clamp: self.operand(operands[3]),
                mask: self.operand(operands[4]),
            },
            "match" => {
                let (to, value) = (self.register(operands[0]), self.operand(operands[1]));
                Kind::Match {
                    to,
                    value,
                    mask: self.operand(operands[2]),
                }
            }
            "redux" => {
                assert!(name.starts_with("redux.sync.add."), "{line}");
                let (to, value) = (self.register(operands[0]), self.operand(operands[1]));
                Kind::ReduxAdd {
                    to,
                    value,
                    mask: self.operand(operands[2]),
                }
            }
            _ => panic!("this machine does not know {line:?}"),
        }
    }

    /// Reads an instruction that loads or stores, by its dot-separated parts.
    fn access(&mut self, parts: &[&str], operands: &[&str], line: &str) -> Kind {
        let ty = || Type::of(parts.last().expect("a type"));
        // Relaxed accesses are to global memory unless they say otherwise: blocks share no other.
        let space = || {
            if parts[1] == "shared" {
                Space::Shared
            } else {
                Space::Global
            }
        };
        match (parts[0], parts.get(1).copied().unwrap_or("")) {
            ("ld", "param") => {
                let (parameter, offset) = Self::address(operands[1]);
                let parameter = self
                    .parameters
                    .iter()
                    .position(|name| name == parameter)
                    .expect("a parameter");
                Kind::LoadParameter {
                    ty: ty(),
                    to: self.register(operands[0]),
                    parameter,
                    offset: offset as usize,
                }
            }
            ("ld", "global" | "shared" | "relaxed" | "acquire") => {
                let mut register =
                    |text: &str| Some(self.register(text.trim_matches(['{', '}', ' '])));
                let to = match operands {
                    [to, _] => [register(to), None, None, None],
                    [a, b, _] if parts.contains(&"v2") => [register(a), register(b), None, None],
                    [a, b, c, d, _] if parts.contains(&"v4") => {
                        [a, b, c, d].map(|text| register(text))
                    }
                    _ => panic!("this machine does not know {line:?}"),
                };
                let (base, offset) = Self::address(operands.last().expect("an address"));
                let base = self.operand(base);
                Kind::Load {
                    space: space(),
                    read_only: parts[2] == "nc",
                    ty: ty(),
                    to,
                    base,
                    offset,
                }
            }
            ("st", "global" | "shared" | "relaxed" | "release") => {
                let (base, offset) = Self::address(operands[0]);
                let from = operands[1..]
                    .iter()
                    .map(|text| self.operand(text.trim_matches(['{', '}', ' '])))
                    .collect();
                let base = self.operand(base);
                Kind::Store {
                    space: space(),
                    ty: ty(),
                    base,
                    offset,
                    from,
                }
            }
            ("atom", "global" | "shared") => {
                let (base, offset) = Self::address(operands[1]);
                let op = match parts[2] {
                    "add" if parts[3].starts_with('f') => Op::Float(Float::Add),
                    "add" => Op::Add,
                    "and" => Op::And,
                    "or" => Op::Or,
                    "xor" => Op::Xor,
                    "min" => Op::Min,
                    "max" => Op::Max,
                    "exch" => Op::Exchange,
                    "cas" => Op::CompareExchange,
                    other => panic!("atomic {other}"),
                };
                let (to, base) = (self.register(operands[0]), self.operand(base));
                let (from, new) = (
                    self.operand(operands[2]),
                    operands.get(3).map(|new| self.operand(new)),
                );
                Kind::Atomic {
                    space: space(),
                    op,
                    ty: ty(),
                    to,
                    base,
                    offset,
                    from,
                    new,
                }
            }
            _ => panic!("this machine does not know {line:?}"),
        }
    }
}

/// Returns operation and type of an instruction that only computes.
fn operation(parts: &[&str]) -> Option<(Op, Type)> {
    let last = *parts.last()?;
    let is_float = |name: &str| matches!(name, "f32" | "f64");
    if is_float(last)
        && let Some(op) = float_operation(parts)
    {
        let ty = if parts[0] == "cvt" {
            parts[parts.len() - 2]
        } else {
            last
        };
        return Some((op, Type::of(ty)));
    }
    let op = match parts {
        // An address in global memory is the same number in generic space.
        ["mov", _] | ["cvta", "to", "global", _] => Op::Move,
        ["add", _] => Op::Add,
        ["sub", _] => Op::Sub,
        ["mul", "lo", _] => Op::Mul,
        ["mul", "wide", _] => Op::MulWide,
        ["mul", "hi", _] => Op::MulHigh,
        ["mad", "lo", _] => Op::Mad,
        ["mad", "wide", _] => Op::MadWide,
        ["div", _] => Op::Div,
        ["rem", _] => Op::Rem,
        ["min", _] => Op::Min,
        ["max", _] => Op::Max,
        ["and", _] => Op::And,
        ["or", _] => Op::Or,
        ["xor", _] => Op::Xor,
        ["not", _] => Op::Not,
        ["neg", ty] if ty.starts_with('s') => Op::Negate,
        ["abs", _] => Op::Abs,
        ["clz", _] => Op::LeadingZeros,
        ["brev", _] => Op::Reverse,
        ["shl", _] => Op::Shl,
        ["shr", _] => Op::Shr,
        ["shf", side, mode, _] => Op::FunnelShift(*side == "l", *mode == "wrap"),
        ["bfe", _] => Op::BitField,
        ["bfi", _] => Op::InsertBits,
        ["prmt", _] => Op::Permute,
        ["popc", _] => Op::CountOnes,
        ["selp", _] => Op::Select,
        ["cvt", "rn", to, from] if is_float(to) => {
            return Some((Op::IntToFloat(Type::of(from)), Type::of(to)));
        }
        ["cvt", to, from] => return Some((Op::Convert(Type::of(from)), Type::of(to))),
        ["setp", cmp, _] => Op::Compare(Cmp::of(cmp)?),
        _ => return None,
    };
    Some((op, Type::of(last)))
}

/// Returns the operation of an instruction that takes floats.
fn float_operation(parts: &[&str]) -> Option<Op> {
    let bits = |name: &str| Type::of(name).bits;
    let op = match parts {
        ["add", "rn", _] => Float::Add,
        ["sub", "rn", _] => Float::Sub,
        ["mul", "rn", _] => Float::Mul,
        ["div", "rn", _] => Float::Div,
        ["fma", "rn", _] => Float::Fma,
        ["min", _] => Float::Min,
        ["max", _] => Float::Max,
        ["neg", _] => Float::Negate,
        ["abs", _] => Float::Abs,
        ["sqrt", "rn", _] => Float::Sqrt,
        ["rsqrt", "approx", _] => Float::ReciprocalSqrt,
        ["rcp", "rn", _] => Float::Reciprocal,
        ["cvt", round, to, from] if to == from && Round::of(round).is_some() => {
            Float::Round(Round::of(round)?)
        }
        ["cvt", round, to, from] if !to.starts_with('f') => {
            return Some(Op::FloatToInt(bits(from), Round::of(round)?));
        }
        ["cvt", "rn", _, from] | ["cvt", _, from] => return Some(Op::FloatToFloat(bits(from))),
        ["setp", "num" | "nan", _] => return Some(Op::AreNumbers(parts[1] == "num")),
        ["setp", cmp, _] => {
            let ordered = Cmp::of(cmp);
            let unordered = || cmp.strip_suffix('u').and_then(Cmp::of);
            return Some(Op::CompareFloat(
                ordered.or_else(unordered)?,
                ordered.is_none(),
            ));
        }
        _ => return None,
    };
    Some(Op::Float(op))
}
