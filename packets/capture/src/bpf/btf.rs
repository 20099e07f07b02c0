//! BTF: what the kernel's types look like, so that members are found where this kernel has them.
//!
//! Nothing in it is trusted: whatever the bytes say, reading them ends, in an error if need be.

use std::fmt;
use std::io::Read;

const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
/// A kernel's is a few megabytes.
const MOST_BYTES: u64 = 128 << 20;
const MAGIC: u16 = 0xeb9f;
/// Structures in structures, and names for names: deeper than this is nonsense.
const MOST_DEPTH: u32 = 32;

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const FUNC: u32 = 12;
const FLOAT: u32 = 16;
const TYPE_TAG: u32 = 18;
const ENUM64: u32 = 19;

/// Reason why BTF could not be read, or has not what was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BtfError {
    /// The file cannot be read.
    File(String),
    /// The bytes make no sense: where.
    Broken(String),
    /// There is no such type or member.
    Unknown(String),
}

impl fmt::Display for BtfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BtfError::File(why) => write!(
                f,
                "{why}; the kernel's types are there if it was built with CONFIG_DEBUG_INFO_BTF"
            ),
            BtfError::Broken(what) => write!(f, "BTF makes no sense: {what}"),
            BtfError::Unknown(what) => write!(f, "this kernel has no {what}"),
        }
    }
}

impl std::error::Error for BtfError {}

/// Where a member lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Bytes from the start of the structure; for a bit field, of the byte that it begins in.
    pub offset: u32,
    /// Bytes; for a bit field, of the type that it was declared with.
    pub size: u32,
    /// For a bit field: its first bit in that byte (as the machine counts them), and how many.
    pub bits: Option<(u32, u32)>,
}

/// One type: where its record is and what its fixed part says.
#[derive(Clone, Copy, Debug)]
struct Type {
    name: u32,
    info: u32,
    /// Size, or another type's number.
    last: u32,
    /// Where the rest of the record is.
    rest: usize,
}

impl Type {
    fn kind(self) -> u32 {
        self.info >> 24 & 0x1f
    }

    fn count(self) -> usize {
        (self.info & 0xffff) as usize
    }

    fn flag(self) -> bool {
        self.info >> 31 == 1
    }

    /// Bytes after the fixed part.
    fn rest_len(self) -> Option<usize> {
        let (fixed, each) = match self.kind() {
            INT | 14 | 17 => (4, 0),
            ARRAY => (12, 0),
            STRUCT | UNION | 15 | ENUM64 => (0, 12),
            ENUM | 13 => (0, 8),
            PTR | 7..=FUNC | FLOAT | TYPE_TAG => (0, 0),
            _ => return None,
        };
        Some(fixed + each * self.count())
    }
}

/// A kernel's types.
#[derive(Clone, Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    /// Type `n` is at `n − 1`; type 0 is `void`.
    types: Vec<Type>,
    /// Where the names begin and end.
    names: (usize, usize),
}

impl Btf {
    /// The running kernel's.
    pub fn kernel() -> Result<Btf, BtfError> {
        let failed = |error: std::io::Error| BtfError::File(format!("{VMLINUX}: {error}"));
        let file = std::fs::File::open(VMLINUX).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        Btf::parse(bytes)
    }

    /// Reads BTF of this machine's byte order.
    pub fn parse(bytes: Vec<u8>) -> Result<Btf, BtfError> {
        let broken = |what: &str| BtfError::Broken(what.to_owned());
        let word = |at: usize| word(&bytes, at).ok_or_else(|| broken("it ends in its header"));
        let magic = bytes.first_chunk().copied().map(u16::from_ne_bytes);
        if magic != Some(MAGIC) {
            return Err(broken("it does not begin with its magic number"));
        }
        if bytes.get(2) != Some(&1) {
            return Err(broken("its version is not 1"));
        }
        let header = word(4)? as usize;
        let section = |offset: u32, len: u32| {
            let start = header.checked_add(offset as usize)?;
            let end = start.checked_add(len as usize)?;
            (end <= bytes.len()).then_some((start, end))
        };
        let types = section(word(8)?, word(12)?).ok_or_else(|| broken("its types are cut off"))?;
        let names = section(word(16)?, word(20)?).ok_or_else(|| broken("its names are cut off"))?;
        let types = read_types(&bytes, types)?;
        Ok(Btf { bytes, types, names })
    }

    /// Number of types.
    #[must_use]
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    fn name(&self, at: u32) -> Option<&[u8]> {
        let (start, end) = self.names;
        let from = start.checked_add(at as usize)?;
        let rest = self.bytes.get(from..end)?;
        rest.split(|byte| *byte == 0).next()
    }

    fn get(&self, number: u32) -> Option<Type> {
        self.types.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
    }

    fn find(&self, kinds: &[u32], name: &str) -> Option<u32> {
        let found = self.types.iter().position(|t| {
            kinds.contains(&t.kind()) && self.name(t.name) == Some(name.as_bytes())
        })?;
        u32::try_from(found + 1).ok()
    }

    /// The number of a function, as calls and hooks take it.
    pub fn function(&self, name: &str) -> Result<u32, BtfError> {
        let unknown = || BtfError::Unknown(format!("function `{name}`"));
        self.find(&[FUNC], name).ok_or_else(unknown)
    }

    /// The number of a tracepoint's type, as hooks take it: `netif_receive_skb`.
    pub fn tracepoint(&self, name: &str) -> Result<u32, BtfError> {
        let unknown = || BtfError::Unknown(format!("tracepoint `{name}`"));
        self.find(&[TYPEDEF], &format!("btf_trace_{name}")).ok_or_else(unknown)
    }

    /// The size of a structure or union, in bytes.
    pub fn size_of(&self, name: &str) -> Result<u32, BtfError> {
        let number = self.structure(name)?;
        self.size(number, 0).ok_or_else(|| BtfError::Broken(format!("the size of `{name}`")))
    }

    fn structure(&self, name: &str) -> Result<u32, BtfError> {
        let unknown = || BtfError::Unknown(format!("structure `{name}`"));
        self.find(&[STRUCT, UNION], name).ok_or_else(unknown)
    }

    /// The offset of a member, in bytes; as [`Btf::member`], and no bit field.
    pub fn offset(&self, structure: &str, path: &str) -> Result<u32, BtfError> {
        let member = self.member(structure, path)?;
        match member.bits {
            None => Ok(member.offset),
            Some(_) => {
                Err(BtfError::Unknown(format!("byte offset of the bit field `{structure}.{path}`")))
            }
        }
    }

    /// Where the member of a structure or union is. `path` may go into structures by points
    /// (`tail.next`); anonymous structures and unions are looked through.
    pub fn member(&self, structure: &str, path: &str) -> Result<Member, BtfError> {
        let mut inside = self.structure(structure)?;
        let mut bits = 0_u32;
        let mut found = None;
        for name in path.split('.') {
            let unknown = || BtfError::Unknown(format!("member `{structure}.{path}`"));
            let mut work = MOST_LOOKS;
            let (offset, number, width) =
                self.search(inside, name.as_bytes(), 0, &mut work).ok_or_else(unknown)?;
            bits = bits.checked_add(offset).ok_or_else(unknown)?;
            inside = self.plain(number).unwrap_or(number);
            found = Some((number, width));
        }
        let (number, width) = found.unwrap_or((inside, 0));
        let size = self.size(number, 0);
        let size = size.ok_or_else(|| BtfError::Broken(format!("the size of `{path}`")))?;
        let bit_field = (width > 0).then_some((bits % 8, width));
        Ok(Member { offset: bits / 8, size, bits: bit_field })
    }

    /// The offset in bits, the type and the width in bits (0: all of it) of a member.
    fn search(
        &self,
        structure: u32,
        name: &[u8],
        depth: u32,
        work: &mut u32,
    ) -> Option<(u32, u32, u32)> {
        let holder = self.get(structure)?;
        if depth > MOST_DEPTH || !matches!(holder.kind(), STRUCT | UNION) {
            return None;
        }
        for n in 0..holder.count() {
            // Structures that hold themselves, or each other, many times over.
            *work = work.checked_sub(1)?;
            let at = holder.rest.checked_add(n.checked_mul(12)?)?;
            let (named, number) = (word(&self.bytes, at)?, word(&self.bytes, at + 4)?);
            let place = word(&self.bytes, at + 8)?;
            let (offset, width) =
                if holder.flag() { (place & 0xff_ffff, place >> 24) } else { (place, 0) };
            let found = match self.name(named)? {
                [] => self
                    .plain(number)
                    .and_then(|inner| self.search(inner, name, depth + 1, work))
                    .and_then(|(inner, number, width)| {
                        Some((offset.checked_add(inner)?, number, width))
                    }),
                member if member == name => Some((offset, number, width)),
                _ => None,
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// The type behind names and qualifiers.
    fn plain(&self, mut number: u32) -> Option<u32> {
        for _ in 0..MOST_DEPTH {
            let found = self.get(number)?;
            match found.kind() {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => number = found.last,
                _ => return Some(number),
            }
        }
        None
    }

    fn size(&self, number: u32, depth: u32) -> Option<u32> {
        if depth > MOST_DEPTH {
            return None;
        }
        let found = self.get(self.plain(number)?)?;
        match found.kind() {
            INT | STRUCT | UNION | ENUM | FLOAT | ENUM64 => Some(found.last),
            PTR => u32::try_from(size_of::<usize>()).ok(),
            ARRAY => {
                let each = self.size(word(&self.bytes, found.rest)?, depth + 1)?;
                each.checked_mul(word(&self.bytes, found.rest + 8)?)
            }
            _ => None,
        }
    }
}

/// Members that are looked at for one name: the largest structures have some hundreds.
const MOST_LOOKS: u32 = 100_000;

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

fn read_types(bytes: &[u8], (mut at, end): (usize, usize)) -> Result<Vec<Type>, BtfError> {
    let bytes = bytes.get(..end).unwrap_or_default();
    let mut types = Vec::new();
    while at < end {
        let broken = |what: &str| BtfError::Broken(format!("type {}: {what}", types.len() + 1));
        let part = |n: usize| word(bytes, at + n).ok_or_else(|| broken("cut off"));
        let found = Type { name: part(0)?, info: part(4)?, last: part(8)?, rest: at + 12 };
        let rest = found.rest_len().ok_or_else(|| broken("of a kind that is not known"))?;
        at = found.rest.checked_add(rest).ok_or_else(|| broken("too long"))?;
        if at > end {
            return Err(broken("cut off"));
        }
        types.push(found);
    }
    Ok(types)
}
