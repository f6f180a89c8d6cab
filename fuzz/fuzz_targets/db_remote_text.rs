#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| osier_fuzz::ovsdb("db_remote_text", data));
