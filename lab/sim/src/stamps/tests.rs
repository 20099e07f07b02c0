use super::*;
use proptest::prelude::*;

fn read(text: impl AsRef<[u8]>) -> Result<Vec<Row>, StampError> {
    Reader::new(text.as_ref()).collect()
}

fn fault(text: impl AsRef<[u8]>) -> String {
    read(text).expect_err("it is not right").to_string()
}

#[test]
fn a_file_is_read() {
    let text = "\u{feff}% Ta Tb Te Tf\r\n\n  \t\n# nominal-hz: 2500000000\n\
        100 1700000000.000000001  1700000000.5\t4000000000 # all well\r\n\
        5000000100 1700000002 1700000002.25 9000000000";
    let mut reader = Reader::new(text.as_bytes());
    assert_eq!(reader.declared(), Declared::default());
    let first = reader.next().unwrap().unwrap();
    assert_eq!(reader.declared().nominal_hz, Some(2_500_000_000));
    assert_eq!(first.line, 5);
    let stamped = first.stamped;
    assert_eq!((stamped.sent, stamped.received), (Count(100), Count(4_000_000_000)));
    assert_eq!(stamped.server_received, Instant::new(1_700_000_000, 18_446_744_074));
    assert_eq!(stamped.server_sent, Instant::new(1_700_000_000, 1 << 63));
    assert_eq!(stamped.reference, None);
    // No end of line at the end of the file.
    assert_eq!(reader.next().unwrap().unwrap().line, 6);
    assert!(reader.next().is_none() && reader.next().is_none());
}

#[test]
fn reference_columns_are_read() {
    let rows = read("1 2 3 4 5.5 6.25\n2 3 4 5 6 7\n").unwrap();
    let reference = rows[0].stamped.reference.unwrap();
    assert_eq!(reference.sent, Instant::new(5, 1 << 63));
    assert_eq!(reference.received, Instant::new(6, 1 << 62));
}

#[test]
fn every_fault_is_named_with_its_place_and_its_mend() {
    for (text, said) in [
        ("", "it is empty: expected rows of Ta Tb Te Tf [RefIn RefOut]"),
        ("# nothing\n\n", "no row in 2 lines, only comments and blanks"),
        (
            "1 2 3\n",
            "line 1: expected 4 columns (Ta Tb Te Tf) or 6 (RefIn RefOut as well), found 3",
        ),
        ("1 2 3\n", "was the line cut off?"),
        ("\n1 2 3 4 5\n", "line 2: expected 4 columns (Ta Tb Te Tf) or 6"),
        ("1 2 3 4 5\n", "found 5: both reference columns or none"),
        ("1 2 3 4 5 6 7\n", "found 7: leave the other columns out"),
        ("1,2,3,4\n", "found 1: separate the columns by blanks or tabs"),
        ("1 2 3 4\n1 2 3 4 5 6\n", "line 2: expected 4 columns as in line 1, found 6"),
        ("#\n1 2 3 4 5 6\n1 2 3 4\n", "line 3: expected 6 columns as in line 2, found 4"),
        ("1 2 3 x\n", "line 1, column 4 (Tf): expected a count (a whole number), found 'x'"),
        ("1 2 3 x\n", "a comment begins with # or %"),
        (
            "-1 2 3 4\n",
            "column 1 (Ta): expected a count (a whole number), found '-1': counts are unsigned",
        ),
        ("0x1f 2 3 4\n", "found '0x1f': write it in decimal"),
        ("1.5 2 3 4\n", "are the columns in the order Ta Tb Te Tf?"),
        ("1e9 2 3 4\n", "found '1e9': scientific notation loses digits; write all of them out"),
        ("18446744073709551616 2 3 4\n", "counts have 64 bits"),
        (
            "1 2 x 4\n",
            "line 1, column 3 (Te): expected Unix seconds between 1970 and 2200, found 'x'",
        ),
        (
            "1 1.7e9 3 4\n",
            "column 2 (Tb): expected Unix seconds between 1970 and 2200, found '1.7e9': scientific",
        ),
        ("1 1.7E+09 3 4\n", "scientific"),
        ("1 -2.5 3 4\n", "found '-2.5': it is before 1970"),
        ("1 1.2.3 3 4\n", "a comment begins with"),
        ("1 1,5 3 4\n", "columns are separated by blanks or tabs, and decimals by a point"),
        (
            "1 7258118400 3 4\n",
            "are these milliseconds or nanoseconds, or counts? Write seconds since 1970",
        ),
        ("1 99999999999999999999999999 3 4\n", "Write seconds since 1970"),
        ("1 2 3 4 5 ?\n", "line 1, column 6 (RefOut)"),
        ("1 2 3 4 nan 6\n", "line 1, column 5 (RefIn)"),
        ("1 2 \u{1b}[2J 4\n", "found '\\u{1b}[2J'"),
        ("1 2 3 \u{e9}\u{e9}\n", "found 'éé'"),
        ("1 2 3 aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeee\n", "dddddddddd…'"),
        (
            "# nominal-hz: fast\n",
            "line 1: expected whole counts per second, 2 or more, after 'nominal-hz:', found 'fast'",
        ),
        ("# Nominal-Hz: 1\n", "2 or more"),
        (
            "# nominal-error: 0\n",
            "expected a rate after 'nominal-error:', found '0': write it as in 500 ppm",
        ),
        (
            "1 2 3 4 # stamp-error: 5\n",
            "expected a span of time after 'stamp-error:', found '5': write it as in",
        ),
        ("% root-distance: -5us\n", "after 'root-distance:', found '-5us'"),
        (
            "+123 2 3 4\n",
            "column 1 (Ta): expected a count (a whole number), found '+123': write it",
        ),
        ("1 +2.5 3 4\n", "found '+2.5': write it without the sign"),
        ("nan 2 3 4\n", "found 'nan': nothing was measured there: leave the row out"),
        ("1 -inf 3 4\n", "leave the row out"),
        (
            "# nominal-hz: 1000\n#\n1 2 3 4\n# Nominal-Hz: 1000\n",
            "line 4: expected 'nominal-hz:' once, found it again, after line 1: leave one",
        ),
        ("1 2 3 4\0\n", "line 1: expected text, found a zero byte: is it binary"),
    ] {
        let error = fault(text);
        assert!(error.contains(said), "{text:?}: {error}");
        assert!(!error.chars().any(char::is_control), "{error:?}");
    }
}

#[test]
fn the_first_fault_ends_it() {
    let mut reader = Reader::new(&b"1 2 3 4\nx 2 3 4\n5 6 7 8\n"[..]);
    assert!(reader.next().unwrap().is_ok());
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn lines_without_end_are_refused_before_they_are_held() {
    struct Endless(u64);
    impl io::Read for Endless {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            bytes.fill(b'1');
            Ok(bytes.len())
        }
    }
    let mut reader = Reader::new(io::BufReader::new(Endless(0)));
    let error = reader.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("line 1: expected at most 4096 bytes in a line, found more"), "{error}");
    assert!(reader.buffer.capacity() < 4 * MAX_LINE);
    let longest = format!("1 2 3 4 #{}\n", "x".repeat(MAX_LINE - 9));
    assert_eq!(read(longest).unwrap().len(), 1);
}

#[test]
fn what_cannot_be_read_says_why() {
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let error = Reader::new(io::BufReader::new(Broken)).next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "cannot be read: the disk is gone");
}

#[test]
fn a_header_is_read_back() {
    let declared = Declared {
        nominal_hz: Some(2_400_000_000),
        nominal_error: Some(Rate::from_ppb(500_000)),
        stamp_error: Some(Span::from_nanos(150)),
        root_distance: Some(Span::from_micros(30)),
        precision: Some(Span::from_nanos(60)),
    };
    let mut text = String::new();
    write_header(&declared, true, &mut text).unwrap();
    assert!(text.starts_with("# Ta Tb Te Tf RefIn RefOut\n"), "{text}");
    text.push_str("1 2 3 4 5 6\n");
    let mut reader = Reader::new(text.as_bytes());
    reader.next().unwrap().unwrap();
    let back = reader.declared();
    assert_eq!(
        (back.nominal_hz, back.nominal_error),
        (declared.nominal_hz, declared.nominal_error)
    );
    let near = |a: Option<Span>, b: Option<Span>| (a.unwrap() - b.unwrap()).abs().as_picos() == 0;
    assert!(near(back.stamp_error, declared.stamp_error));
    assert!(near(back.root_distance, declared.root_distance));
    assert!(near(back.precision, declared.precision));
}

fn instant() -> impl Strategy<Value = Instant> {
    (0..LATEST as i64, any::<u64>()).prop_map(|(secs, frac)| Instant::new(secs, frac))
}

fn stamped(reference: bool) -> impl Strategy<Value = Stamped> {
    (any::<[u64; 2]>(), [instant(), instant(), instant(), instant()]).prop_map(
        move |([sent, received], [tb, te, ref_in, ref_out])| Stamped {
            sent: Count(sent),
            server_received: tb,
            server_sent: te,
            received: Count(received),
            reference: reference.then_some(Reference { sent: ref_in, received: ref_out }),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(
        stamps in any::<bool>().prop_flat_map(|r| proptest::collection::vec(stamped(r), 1..20)),
    ) {
        let mut text = String::new();
        write_header(&Declared::default(), stamps[0].reference.is_some(), &mut text).unwrap();
        write_stamps(&stamps, &mut text).unwrap();
        let rows = read(text).unwrap();
        prop_assert_eq!(rows.iter().map(|row| row.stamped).collect::<Vec<_>>(), stamps);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        drive(&bytes);
    }

    #[test]
    fn no_lines_panic(text in "([0-9.eE+, #%:x\\t\\r\\n-]|nominal-hz){0,120}") {
        drive(text.as_bytes());
    }
}

/// Checks that the fuzz target makes as well.
fn drive(bytes: &[u8]) {
    let mut lines = 0;
    for row in Reader::new(bytes) {
        match row {
            Ok(row) => {
                assert!(row.line > lines);
                lines = row.line;
                let mut text = String::new();
                write_stamps(&[row.stamped], &mut text).unwrap();
                assert_eq!(read(text).unwrap()[0].stamped, row.stamped);
            }
            Err(error) => assert!(!error.to_string().chars().any(char::is_control), "{error:?}"),
        }
    }
}
