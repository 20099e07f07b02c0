//! Writing, reading and checking of each kind of value.

use core::fmt;

use crate::compared::Places;

/// Reason why bytes are not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Broken {
    /// They do not begin as a message of this protocol does.
    Foreign,
    /// Another version of the protocol.
    Version(u16),
    /// They end before the message does.
    Short,
    /// They go on after the message's end.
    Long,
    /// Something in the message cannot be.
    Wrong(&'static str),
}

impl Broken {
    /// In words.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Broken::Foreign => "not a message of this protocol",
            Broken::Version(_) => "of another version of the protocol",
            Broken::Short => "cut short",
            Broken::Long => "too long for what it says",
            Broken::Wrong(what) => what,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.what())
    }
}

/// The bytes that are still to be read.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Broken::Short)?;
        self.0 = rest;
        Ok(*array)
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8], Broken> {
        let (slice, rest) = self.0.split_at_checked(length).ok_or(Broken::Short)?;
        self.0 = rest;
        Ok(slice)
    }

    /// Nothing must be left.
    pub(super) fn end(&self) -> Result<(), Broken> {
        if self.0.is_empty() { Ok(()) } else { Err(Broken::Long) }
    }
}

/// A kind of value.
pub(super) trait Form: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(from: &mut Reader<'_>) -> Result<Self, Broken>;
    /// Any value that can be, for tests.
    #[cfg(test)]
    fn any(random: &mut super::tests::Random) -> Self;
}

/// A kind of value that comes in lists (of at most `MOST`).
pub(super) trait Item: Form {
    const MOST: usize;
}

macro_rules! number {
    ($($number:ty),*) => {$(
        impl Form for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(from: &mut Reader<'_>) -> Result<Self, Broken> {
                Ok(<$number>::from_le_bytes(from.array()?))
            }
            #[cfg(test)]
            fn any(random: &mut super::tests::Random) -> Self {
                random.number() as $number
            }
        }
    )*};
}
number!(u8, u16, u32, u64, i32, i64);

impl Form for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Result<bool, Broken> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Broken::Wrong("neither yes nor no")),
        }
    }

    #[cfg(test)]
    fn any(random: &mut super::tests::Random) -> bool {
        random.number() & 1 == 1
    }
}

impl<T: Form> Form for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Option<T>, Broken> {
        if bool::take(from)? { T::take(from).map(Some) } else { Ok(None) }
    }

    #[cfg(test)]
    fn any(random: &mut super::tests::Random) -> Option<T> {
        bool::any(random).then(|| T::any(random))
    }
}

impl<A: Form, B: Form> Form for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<(A, B), Broken> {
        Ok((A::take(from)?, B::take(from)?))
    }

    #[cfg(test)]
    fn any(random: &mut super::tests::Random) -> (A, B) {
        (A::any(random), B::any(random))
    }
}

impl Form for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        length(self.len()).put(out);
        out.extend_from_slice(self);
    }

    fn take(from: &mut Reader<'_>) -> Result<Vec<u8>, Broken> {
        let length = u32::take(from)?;
        Ok(from.slice(length as usize)?.to_vec())
    }

    #[cfg(test)]
    fn any(random: &mut super::tests::Random) -> Vec<u8> {
        let length = random.number() as usize % 20;
        (0..length).map(|_| u8::any(random)).collect()
    }
}

impl<T: Item> Form for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        length(self.len()).put(out);
        for value in self {
            value.put(out);
        }
    }

    /// Grows only as the values come, each of which takes a byte or more.
    fn take(from: &mut Reader<'_>) -> Result<Vec<T>, Broken> {
        let length = u32::take(from)?;
        if length as usize > T::MOST {
            return Err(Broken::Wrong("a list longer than can be"));
        }
        let mut values = Vec::new();
        for _ in 0..length {
            values.push(T::take(from)?);
        }
        Ok(values)
    }

    #[cfg(test)]
    fn any(random: &mut super::tests::Random) -> Vec<T> {
        let length = random.number() as usize % 4;
        (0..length).map(|_| T::any(random)).collect()
    }
}

impl Form for Places {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|word| word.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Result<Places, Broken> {
        let mut places = Places::default();
        for word in &mut places.0 {
            *word = u64::take(from)?;
        }
        Ok(places)
    }

    #[cfg(test)]
    fn any(random: &mut super::tests::Random) -> Places {
        Places(std::array::from_fn(|_| (1 << (random.number() % 64)) & random.number()))
    }
}

/// A length is below 2³² everywhere: the longest message has 2²⁰ bytes, the longest state 2³⁰.
fn length(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// A struct: its fields in order, and what must hold of it (else it is `$wrong`).
macro_rules! plain {
    ($name:ident { $($field:ident),* } $(, |$value:ident| $holds:expr, $wrong:literal)?) => {
        impl Form for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let $name { $($field),* } = self;
                $($field.put(out);)*
            }
            fn take(from: &mut Reader<'_>) -> Result<Self, Broken> {
                $(let $field = Form::take(from)?;)*
                let value = $name { $($field),* };
                $(
                    let $value = &value;
                    if !$holds {
                        return Err(Broken::Wrong($wrong));
                    }
                )?
                Ok(value)
            }
            #[cfg(test)]
            fn any(random: &mut tests::Random) -> Self {
                loop {
                    $(let $field = Form::any(random);)*
                    let value = $name { $($field),* };
                    $(
                        let $value = &value;
                        if !$holds {
                            continue;
                        }
                    )?
                    return value;
                }
            }
        }
    };
}

/// A number with a name.
macro_rules! named {
    ($($name:ident: $number:ty),*) => {$(
        impl Form for $name {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn take(from: &mut Reader<'_>) -> Result<Self, Broken> {
                Ok($name(<$number>::take(from)?))
            }
            #[cfg(test)]
            fn any(random: &mut tests::Random) -> Self {
                $name(<$number>::any(random))
            }
        }
    )*};
}

pub(super) use {named, plain};
