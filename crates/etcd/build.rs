//! Compiles the part of etcd's protocol that is used, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/etcd.proto");
    let files = protox::compile(["proto/etcd.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).bytes(".").compile_fds(files)?;
    Ok(())
}
