//! The records of ours in capture files: any bytes are a record or a named fault, and a packet's
//! goes back to the same bytes.
#![no_main]

use truechimer_pcapng::records::{self, Record};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let own =
        [&records::ENTERPRISE.to_le_bytes(), records::MAGIC.as_slice(), &[records::VERSION], bytes];
    for value in [bytes.to_vec(), own.concat()] {
        match records::read(&value) {
            Ok(Some(Record::Packet(record))) => assert_eq!(record.encode(), value[4..]),
            Ok(Some(Record::Mark(mark))) => assert_eq!(mark.encode(), value[4..]),
            Ok(Some(Record::Change(json))) => assert_eq!(records::change(json), value[4..]),
            Ok(Some(Record::Unknown { .. }) | None) => {}
            Err(why) => assert!(!why.chars().any(char::is_control), "{why:?}"),
        }
    }
});
