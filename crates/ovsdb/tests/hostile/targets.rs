//! Everything of the crate that reads what others wrote, as functions of bytes: for the replay in
//! these tests, and for fuzzing. No input may panic, take long or allocate much; what is understood
//! must survive being written and read again.

use std::sync::{Arc, LazyLock};

use osier_ovsdb::cache::Cache;
use osier_ovsdb::error::outcomes;
use osier_ovsdb::frame::{Framer, Limits};
use osier_ovsdb::monitor::{Monitor, View};
use osier_ovsdb::rpc::{Message, ServerError};
use osier_ovsdb::schema::{ColumnType, Schema};
use osier_ovsdb::session::{Config, Remote, Session, State};
use osier_ovsdb::text::{parse_value, print_value};
use osier_ovsdb::unixctl::{conntrack, coverage, datapath};
use osier_ovsdb::{Transaction, Uuid, Value};

/// A target: its name and its body.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All targets of the crate.
pub(crate) const TARGETS: &[Target] = &[
    ("db_stream", stream),
    ("db_value", value),
    ("db_schema", schema),
    ("db_updates", updates),
    ("db_outcomes", results),
    ("db_value_text", value_text),
    ("db_remote_text", remote_text),
    ("db_connections_text", connections_text),
    ("db_statistics_text", statistics_text),
    ("db_session", session),
];

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| include_str!("../../schemas/vswitch.ovsschema").parse().unwrap());

fn view() -> Arc<View> {
    let tables = SCHEMA.tables.keys();
    let monitor =
        tables.fold(Monitor::new(), |monitor, table| monitor.all_columns(table.to_string()));
    Arc::new(monitor.resolve(&SCHEMA))
}

/// However it is cut, a stream has the same messages, or breaks after the same ones.
fn stream(data: &[u8]) {
    let split = |size: usize| {
        let mut framer = Framer::new(Limits { message: 4096, depth: 16 });
        let mut messages = Vec::new();
        for chunk in data.chunks(size) {
            framer.buffer().extend_from_slice(chunk);
            loop {
                match framer.next_message() {
                    Ok(Some(message)) => messages.push(message.to_vec()),
                    Ok(None) => break,
                    Err(_) => return messages,
                }
            }
            assert!(framer.buffer().len() <= 4096 + size, "memory is bounded");
        }
        messages
    };
    let whole = split(data.len().max(1));
    assert_eq!(whole, split(1));
    for message in &whole {
        if let Ok(Message::Reply { result: Err(error), .. }) = Message::parse(message) {
            let _ = ServerError::parse(error).to_string();
        }
    }
}

fn value(data: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<Value>(data) {
        let again = serde_json::to_vec(&value).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&again).unwrap(), value);
    }
}

fn schema(data: &[u8]) {
    if let Ok(Ok(schema)) = std::str::from_utf8(data).map(str::parse::<Schema>) {
        assert_eq!(schema.to_json().to_string().parse::<Schema>().unwrap(), schema);
    }
}

fn updates(data: &[u8]) {
    let view = view();
    let mut cache = Cache::new(Arc::clone(&view));
    // Twice: the second time rows are there to be modified.
    for _ in 0..2 {
        match view.decode_updates(data) {
            Ok(updates) => drop(cache.apply(updates)),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let _ = cache.snapshot();
}

fn results(data: &[u8]) {
    let mut transaction = Transaction::new("fuzzed");
    transaction.insert_fields("Bridge", vec![("name".into(), 5.into())]);
    transaction.update("Port", Uuid::from_u128(1), vec![("tag".into(), 9999.into())]);
    if let Err(error) = outcomes(data, &transaction, Some(&SCHEMA)) {
        assert!(!error.to_string().is_empty());
    }
}

fn value_text(data: &[u8]) {
    let types: Vec<&ColumnType> = SCHEMA
        .tables
        .values()
        .flat_map(|table| table.columns.values().map(|column| &column.ty))
        .collect();
    let [pick, text @ ..] = data else { return };
    let ty = types[usize::from(*pick) % types.len()];
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(value) = parse_value(ty, text) {
        let printed = print_value(ty, &value);
        assert_eq!(parse_value(ty, &printed).as_ref(), Ok(&value), "{printed}");
    }
}

fn remote_text(data: &[u8]) {
    if let Ok(Ok(remote)) = std::str::from_utf8(data).map(str::parse::<Remote>) {
        assert_eq!(remote.to_string().parse(), Ok(remote));
    }
}

fn connections_text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for connection in conntrack::parse_connections(&text).into_iter().flatten() {
        assert!(!conntrack::Flush::connection(&connection).arguments().is_empty());
    }
}

fn statistics_text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = coverage::parse_coverage(&text);
    let _ = coverage::parse_memory(&text);
    let _ = datapath::parse_datapaths(&text);
    let _ = datapath::parse_upcalls(&text);
}

/// A session ends with its stream, whatever came through it.
fn session(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let mut config = Config::new("Open_vSwitch", Monitor::new().all_columns("Bridge"));
        config.limits = Limits { message: 4096, depth: 16 };
        let session = Session::over(ours, config);
        let (_reader, mut writer) = tokio::io::split(theirs);
        let _ = tokio::io::AsyncWriteExt::write_all(&mut writer, data).await;
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut writer).await;
        let mut status = session.watch();
        let ended = status.wait_for(|status| status.state == State::Ended);
        let ended = tokio::time::timeout(std::time::Duration::from_secs(10), ended).await;
        assert!(ended.is_ok(), "the session ends with its stream");
    });
}
