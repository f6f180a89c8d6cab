#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| osier_fuzz::switches::claim(data));
