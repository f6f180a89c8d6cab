//! Text that is no flow, group or meter: the error says what, and nothing is cut to fit.
#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use osier_openflow::flow::Flow;
use osier_openflow::group::Group;
use osier_openflow::meter::Meter;

#[test]
fn errors_say_what_is_wrong() {
    for (text, said) in [
        ("ip", "a flow needs actions= (actions=drop for none)"),
        ("idle_timeout=86400,actions=drop", "idle_timeout: 86400 does not fit 16 bits"),
        (
            "actions=learn(idle_timeout=86400,eth_type=0x800)",
            "idle_timeout: 86400 does not fit 16 bits",
        ),
        ("priority=65536,actions=drop", "priority: 65536 does not fit 16 bits"),
        ("tcp_dst=80,actions=drop", "tcp_dst needs tcp or tcp6"),
        ("ip,nw_src=10.0.0.0/33,actions=drop", "ip_src: /33 is longer than 32 bits"),
        ("ip,nw_src=10.0.0,actions=drop", "ip_src: \"10.0.0\" is not an IPv4 address"),
        ("ip,ip,actions=drop", "eth_type stands twice"),
        ("dl_vlan=4096,actions=drop", "dl_vlan: 4096 does not fit 12 bits"),
        ("ct_state=+known,actions=drop", "ct_state: there is no flag \"known\""),
        ("colour=red,actions=drop", "there is no field \"colour\""),
        ("actions=paint:red", "there is no action \"paint\""),
        ("actions=load:0x10->reg0[0..3]", "0x10 does not fit 4 bits of reg0"),
        ("actions=move:reg0[]->reg1[0..40]", "reg1 has 32 bits, not 41 from bit 0 on"),
        ("actions=set_field:1->eth_type", "eth_type is read-only"),
        ("actions=clone(output:1", "a parenthesis is not closed in \"(output:1\""),
        ("actions=conjunction(1,3/2)", "conjunction(1,3/2) is not (ID,CLAUSE/CLAUSES)"),
        ("actions=ct(commit,exec(output:1))", "ct(exec) takes set_field and move only"),
        ("ip,actions=ct(commit,nat(src,dst))", "nat takes src or dst, once"),
        (
            "ip,actions=ct(commit,nat(src=10.0.0.1,hash,random))",
            "nat takes hash or random, not both",
        ),
        ("actions=resubmit(,nowhere)", "there is no table \"nowhere\""),
    ] {
        assert_eq!(text.parse::<Flow>().unwrap_err().to_string(), said, "{text}");
    }
}

#[test]
fn nested_text_is_bounded() {
    let deep = format!("actions={}drop{}", "clone(".repeat(5000), ")".repeat(5000));
    let said = deep.parse::<Flow>().unwrap_err().to_string();
    assert_eq!(said, "actions nest deeper than 16 levels");
}

#[test]
fn groups_and_meters_too() {
    for (text, said) in [
        ("type=all", "a group needs group_id="),
        ("group_id=1", "a group needs type="),
        ("group_id=1,type=any", "type=any: a group is all, select, indirect or ff"),
        ("group_id=1,type=all,colour=red", "a group has no \"colour\""),
        ("group_id=1,type=all,bucket=weight:65536,output:1", "weight: 65536 does not fit 16 bits"),
    ] {
        assert_eq!(text.parse::<Group>().unwrap_err().to_string(), said, "{text}");
    }
    for (text, said) in [
        ("kbps,bands=type=drop,rate=1", "a meter needs meter="),
        ("meter=1,band=type=mark,rate=1", "type=mark: a band is drop or dscp_remark"),
        ("meter=1,rate=1", "a meter has no \"rate\" here"),
        ("meter=1,band=type=drop,rate=4294967296", "rate: 4294967296 does not fit 32 bits"),
    ] {
        assert_eq!(text.parse::<Meter>().unwrap_err().to_string(), said, "{text}");
    }
}
