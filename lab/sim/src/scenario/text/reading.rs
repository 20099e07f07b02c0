//! Values as serde asks for them. There is one type of deserializer for all values, and so one
//! copy of what serde makes of each structure.

use core::slice;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use toml::Spanned;
use toml::de::DeValue;

use super::fault::Fault;
use super::value::{Step, Value, Way};

macro_rules! whole_numbers {
    ($($method:ident $visit:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            visitor.$visit(self.whole()?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Fault;

    whole_numbers! {
        deserialize_i8 visit_i8 deserialize_i64 visit_i64
        deserialize_u8 visit_u8 deserialize_u32 visit_u32 deserialize_u64 visit_u64
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_f64(self.number()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_bool(self.boolean()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str(self.text()?).map_err(|fault| self.placed(fault))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_seq(Entries { list: self, left: self.list(None)?.iter(), taken: 0 })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, n: usize, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_seq(Entries { list: self, left: self.list(Some(n))?.iter(), taken: 0 })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if self.way.is_none() {
            self.document.keys.set(keys);
        }
        // By their place in the text: what is wrong first is said first.
        let mut left: Vec<_> = self
            .table()?
            .iter()
            .map(|(key, value)| (key.span().start, key.get_ref().as_ref(), value))
            .collect();
        left.sort_unstable_by_key(|(at, _, _)| core::cmp::Reverse(*at));
        let fields = Fields { table: self, left, value: None };
        visitor.visit_map(fields).map_err(|fault| self.placed(fault))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        kinds: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let (word, value) = self.kind(kinds)?;
        visitor.visit_enum(Kind { of: self, word, value }).map_err(|fault| self.placed(fault))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        Err(self.fault("is of a type that no scenario has"))
    }

    serde::forward_to_deserialize_any! {
        i16 i32 i128 u16 u128 f32 char bytes byte_buf unit unit_struct newtype_struct tuple_struct map identifier ignored_any
    }
}

/// Entries of a list, of which some are taken.
struct Entries<'a> {
    list: Value<'a>,
    left: slice::Iter<'a, Spanned<DeValue<'a>>>,
    taken: usize,
}

impl<'de> SeqAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(value) = self.left.next() else { return Ok(None) };
        self.taken += 1;
        let way = Way { above: self.list.way, step: Step::Entry(self.taken) };
        seed.deserialize(Value { value, way: Some(&way), ..self.list }).map(Some)
    }
}

/// Keys and values of a table, the last one first, and the key whose value is to come.
struct Fields<'a> {
    table: Value<'a>,
    left: Vec<(usize, &'a str, &'a Spanned<DeValue<'a>>)>,
    value: Option<(&'a str, &'a Spanned<DeValue<'a>>)>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((at, key, value)) = self.left.pop() else { return Ok(None) };
        self.value = Some((key, value));
        let read = seed.deserialize(StrDeserializer::new(key));
        read.map(Some).map_err(|fault: Fault| {
            let is_above =
                self.table.way.is_some() && self.table.document.keys.get().contains(&key);
            let hint = ". Keys of the scenario itself stand above its first table";
            self.table.fault_at(at, &format!("{fault}{}", if is_above { hint } else { "" }))
        })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some((key, value)) = self.value.take() else {
            return Err(Fault::Said("a value without a key".to_owned()));
        };
        let way = Way { above: self.table.way, step: Step::Key(key) };
        seed.deserialize(Value { value, way: Some(&way), ..self.table })
    }
}

/// One of several kinds: its word, and the table of its keys if there is one.
struct Kind<'a> {
    of: Value<'a>,
    word: &'a str,
    value: Option<&'a Spanned<DeValue<'a>>>,
}

impl Kind<'_> {
    /// Reads what comes with the word.
    fn inner<T>(&self, read: impl FnOnce(Value<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        let value = self.value.ok_or_else(|| self.of.has_keys(self.word))?;
        let way = Way { above: self.of.way, step: Step::Key(self.word) };
        read(Value { value, way: Some(&way), ..self.of })
    }
}

impl<'de, 'a> EnumAccess<'de> for Kind<'a> {
    type Error = Fault;
    type Variant = Kind<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Kind<'a>), Fault> {
        seed.deserialize(StrDeserializer::new(self.word)).map(|kind| (kind, self))
    }
}

impl<'de> VariantAccess<'de> for Kind<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.value {
            None => Ok(()),
            Some(_) => self.inner(|value| {
                Err(value.fault("has no keys: write it as a word in quotation marks"))
            }),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        self.inner(|value| seed.deserialize(value))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.inner(|value| value.deserialize_any(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.inner(|value| value.deserialize_struct("", keys, visitor))
    }
}
