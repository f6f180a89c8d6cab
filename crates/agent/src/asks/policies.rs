//! What policies did in the switch: how often rules granted.

use crate::config::Config;
use crate::ports::Ports;
use osier_compiler::{Compiler, RuleId};
use osier_fleet::ask::RuleHits;
use osier_model::RuleRef;
use osier_openflow::message::{FlowRequest, MultipartRequest, ReplyBody};
use osier_openflow::session::{Endpoint, Options, RequestError, Session};
use std::collections::BTreeMap;

/// How often each rule granted a connection. What the flow counts are the packets that were judged.
pub(super) async fn hits(config: &Config, ports: &Ports) -> Result<Vec<RuleHits>, String> {
    let cookies: BTreeMap<u64, RuleId> = ports
        .switch()
        .with_compiler(|compiler| compiler.rule_cookies().map(|(rule, c)| (c, rule)).collect())
        .await;
    let counted = match cookies.is_empty() {
        true => BTreeMap::new(),
        false => count(config).await?,
    };
    let told = |compiler: &Compiler| {
        let mut hits: BTreeMap<RuleRef, u64> = BTreeMap::new();
        for (cookie, rule) in &cookies {
            for rule in compiler.rules(*rule) {
                let packets = counted.get(cookie).copied().unwrap_or_default();
                *hits.entry(rule.clone()).or_default() += packets;
            }
        }
        hits.into_iter().map(|(rule, connections)| RuleHits { rule, connections }).collect()
    };
    Ok(ports.switch().with_compiler(told).await)
}

/// What flows counted, by their cookies.
async fn count(config: &Config) -> Result<BTreeMap<u64, u64>, String> {
    let socket = config.ovs_run_dir.join(format!("{}.mgmt", config.bridge));
    let (session, _events) = Session::connect(&Endpoint::Unix(socket), Options::default())
        .await
        .map_err(|error| error.to_string())?;
    let mut counted = BTreeMap::new();
    for table in osier_compiler::pipeline::POLICIES {
        let request = FlowRequest { table: table.number(), ..FlowRequest::default() };
        read(&session, request, &mut counted).await.map_err(|error| error.to_string())?;
    }
    session.close().await;
    Ok(counted)
}

async fn read(
    session: &Session,
    request: FlowRequest,
    counted: &mut BTreeMap<u64, u64>,
) -> Result<(), RequestError> {
    let mut answer = session.multipart(MultipartRequest::FlowDesc(request)).await?;
    while let Some(part) = answer.next().await {
        if let ReplyBody::FlowDesc(flows) = part?.body {
            for flow in flows {
                *counted.entry(flow.flow.cookie).or_default() +=
                    flow.stats.packets.unwrap_or_default();
            }
        }
    }
    Ok(())
}
