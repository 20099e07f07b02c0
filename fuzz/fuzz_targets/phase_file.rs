//! A phase file: any bytes are samples or a named fault, and any samples can be analysed.
#![no_main]

use truechimer_survey::analysis::{Options, PhaseFile, Taus, analyse, write_row};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let file = match PhaseFile::read(bytes) {
        Ok(file) => file,
        Err(error) => {
            assert!(!error.to_string().chars().any(char::is_control), "{error:?}");
            return;
        }
    };
    // What is written is read back to the last bit.
    let mut text = Vec::new();
    for row in &file.rows {
        write_row(&mut text, row.time_s, row.phase_s).expect("memory takes all");
    }
    let again = PhaseFile::read(&text[..]).expect("what we wrote").rows;
    assert_eq!(again.len(), file.rows.len());
    for (a, b) in again.iter().zip(&file.rows) {
        assert_eq!((a.time_s, a.phase_s.to_bits()), (b.time_s, b.phase_s.to_bits()));
    }
    // A gap of months is a few bytes, and much work.
    let Ok((phase, interval_s)) = file.samples(None) else { return };
    if phase.len() > 10_000 {
        return;
    }
    for taus in [Taus::Octave, Taus::Decade] {
        for drop_spikes in [false, true] {
            let options = Options { taus, drop_spikes, ..Options::default() };
            let analysis = analyse(&phase, interval_s, &options);
            assert!(analysis.samples + analysis.missing <= phase.len(), "{analysis:?}");
        }
    }
});
