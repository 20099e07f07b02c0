//! Clocks of interfaces, told from packets of any content, and clock logs of any bytes: no panic, and no time whose two sides
//! exclude each other.
#![no_main]

use truechimer_qos::parse;
use truechimer_scale::{Limits, Scales, Sighting};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&[flags, rate, wander], mut rest)) = bytes.split_first_chunk() else { return };
    for kind in ["system", "card"] {
        let _ = truechimer_scale::log::read(rest, kind);
    }
    let mut scales = Scales::new((flags & 1 == 1).then_some(u64::from(flags) << 12));
    let mut stamps = Vec::new();
    // Interface, link type, stamp, length, and so many bytes.
    while let Some((head, behind)) = rest.split_first_chunk::<11>() {
        let [interface, link, at @ .., length] = *head;
        let at = i64::from_le_bytes([at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]]);
        let (data, behind) = behind.split_at(behind.len().min(length.into()));
        rest = behind;
        let place = (1, u32::from(interface & 3));
        let bound_ns = (interface & 4 != 0).then_some(u32::from(link) << 8);
        let unit_ns = 10i64.pow(u32::from(flags >> 4));
        scales.packet(Sighting { place, at, unit_ns, bound_ns }, &parse(u16::from(link), data));
        stamps.push((place, at));
    }
    let wander_ppb = (flags & 2 == 2).then_some(i64::from(wander) << 8);
    let (mut solved, _) = scales.solve(Limits { rate_ppb: i64::from(rate) << 12, wander_ppb });
    for (place, at) in stamps {
        let scale = solved.get_mut(&place).expect("every interface that was seen");
        let told = scale.next(at);
        if let (Some(earliest), Some(latest)) = (told.earliest, told.latest) {
            assert!(earliest <= latest);
        }
        let _ = (told.middle(), scale.ends(), scale.breaks());
    }
});
