//! Numbers as bytes: seven bits in each, the lowest first.

use farside_fabric::{Error, Result};

use crate::time::Time;

#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn number(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(crate) fn time(&mut self, time: &Time) {
        self.number(time.len() as u32);
        for (rank, count) in time.iter() {
            self.number(rank);
            self.number(count);
        }
    }

    pub(crate) fn wide(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn number(&mut self) -> Result<u32> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let (&byte, rest) = self.bytes.split_first().ok_or_else(cut)?;
            self.bytes = rest;
            value |= u32::from(byte & 0x7F).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(cut())
    }

    pub(crate) fn wide(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.bytes.split_first().ok_or_else(cut)?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(cut())
    }

    pub(crate) fn raw(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.bytes.split_at_checked(count).ok_or_else(cut)?;
        self.bytes = rest;
        Ok(bytes)
    }

    pub(crate) fn time(&mut self) -> Result<Time> {
        let count = self.number()?;
        (0..count).map(|_| Ok((self.number()?, self.number()?))).collect()
    }
}

fn cut() -> Error {
    Error::Internal(
        "a message about shared pages is malformed: do all ranks run the same program?".into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_survive(numbers in proptest::collection::vec(any::<u32>(), 0..20)) {
            let mut writer = Writer::default();
            numbers.iter().for_each(|&number| writer.number(number));
            let mut reader = Reader::new(writer.bytes());
            for &number in &numbers {
                prop_assert_eq!(reader.number(), Ok(number));
            }
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn wide_numbers_and_bytes_survive() {
        let mut writer = Writer::default();
        let numbers = [0, 127, 128, u64::from(u32::MAX) + 1, u64::MAX];
        numbers.iter().for_each(|&value| writer.wide(value));
        writer.raw(b"abc");
        let mut reader = Reader::new(writer.bytes());
        let read: Vec<u64> = (0..5).map(|_| reader.wide().unwrap()).collect();
        assert_eq!(read, numbers);
        assert!(reader.raw(4).is_err());
        assert_eq!(reader.raw(3), Ok(&b"abc"[..]));
        assert!(reader.is_empty());
    }

    #[test]
    fn a_message_that_is_cut_is_an_error() {
        assert!(Reader::new(&[0x80, 0x80]).number().is_err());
        assert!(Reader::new(&[0xFF; 9]).number().is_err());
        assert!(Reader::new(&[2, 1, 1]).time().is_err());
    }
}
