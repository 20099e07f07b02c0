//! A capture file: any bytes, by themselves or after a good beginning, are packets or a named
//! fault, and blocks are copied byte for byte, or with a comment.
#![no_main]

use truechimer_pcapng::{
    Blocks, Content, Frames, ReadError, Section, code, comment, edit, records, write,
};

fn told(error: &ReadError) {
    assert!(!error.to_string().chars().any(char::is_control), "{error:?}");
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let mut file = Vec::new();
    if first & 1 == 1 {
        write::section(&mut file).text(code::APPLICATION, "fuzz").end();
        write::interface(&mut file, 1, 100).text(code::NAME, "wire").end();
    }
    file.extend_from_slice(rest);

    let mut blocks = Blocks::new(file.as_slice());
    let mut section = Section::new();
    let mut copy = Vec::new();
    let whole = loop {
        match blocks.next_block() {
            Ok(Some(block)) => {
                copy.extend_from_slice(block.bytes);
                match section.take(&block) {
                    Ok(Content::Packet(packet)) => {
                        let _ = section.nanos(&packet);
                        assert!(packet.data.len() <= block.bytes.len());
                        let mut anew = block.bytes.to_vec();
                        let text = "Truechimer: ± ?, uncounted";
                        let begin = packet.options.begin();
                        let _ = comment::put(&mut anew, block.order, begin, text, true);
                        let _ = edit::put_record(&mut anew, block.order, begin, &[0; 36]);
                        for option in packet.options.flatten() {
                            // Where it is said to be, there it is.
                            let end = option.at + option.value.len();
                            assert_eq!(&block.bytes[option.at..end], option.value);
                            let _ = records::read(option.value);
                        }
                    }
                    Ok(_) => {}
                    Err(error) => told(&error),
                }
            }
            Ok(None) => break true,
            Err(error) => {
                told(&error);
                break false;
            }
        }
    };
    assert_eq!(copy, file[..copy.len()]);
    if whole {
        let torn = blocks.torn().map_or(0, |torn| torn.there);
        assert_eq!(copy.len() as u64 + torn, file.len() as u64);
    }

    match Frames::new(file.as_slice()) {
        Ok(mut frames) => loop {
            match frames.next_frame() {
                Ok(Some(frame)) => assert!(frame.data.len() <= file.len()),
                Ok(None) => break,
                Err(error) => return told(&error),
            }
        },
        Err(error) => told(&error),
    }
});
