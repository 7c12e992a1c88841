//! See `farside_nic::fuzzing::serve`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| farside_nic::fuzzing::serve(data));
