//! The kernel's description of its types: any bytes, by themselves or behind a good header.
#![no_main]

use truechimer_capture::bpf::Btf;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&how, rest)) = bytes.split_first() else { return };
    let mut file = Vec::new();
    if how & 1 == 1 {
        // Types, then names; the second byte says where the one ends.
        let types = rest.first().map_or(0, |&cut| usize::from(cut) * 4).min(rest.len());
        let names = rest.len() - types;
        file.extend_from_slice(&[0x9f, 0xeb, 1, 0]);
        for word in [24, 0, types, types, names] {
            file.extend_from_slice(&(word as u32).to_le_bytes());
        }
    }
    file.extend_from_slice(rest);
    let Ok(btf) = Btf::parse(file) else { return };
    for name in ["sk_buff", "a", ""] {
        let _ = (btf.function(name), btf.tracepoint(name), btf.size_of(name));
        for path in ["len", "a.b", "", "."] {
            let _ = (btf.offset(name, path), btf.member(name, path));
        }
    }
});
