//! See `farside_nic::fuzzing::serve`.

#![no_main]

use std::sync::LazyLock;

use farside_nic::fuzzing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    static MEMORY: LazyLock<std::sync::Arc<farside_shm::Job>> = LazyLock::new(fuzzing::memory);
    fuzzing::serve(&MEMORY, data);
});
