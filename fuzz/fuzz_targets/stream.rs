//! See `farside_nic::fuzzing::stream`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| farside_nic::fuzzing::stream(data));
