//! Who may come in: agents by the token of their pod, people by tokens of their accounts.

use crate::agent::{Agent, token, try_join};
use crate::controller::Controller;
use crate::server::{NAMESPACE, Server, turn, until};
use osier_kubernetes::Proxy;
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;

#[test]
fn an_agent_joins_for_its_own_node_from_its_own_machine_only() {
    let turn = turn();
    let server = turn.server;
    server.node("a", Some("192.0.2.1"), &["10.244.1.0/24"]);
    server.node("b", Some("192.0.2.2"), &["10.244.2.0/24"]);
    turn.run(async || {
        let controller = Controller::start(server, 0).await;
        // Whoever comes now is refused for what it shows, and not because nobody leads.
        Agent::join(server, &[&controller], "b", "192.0.2.2").await.following(1).await;
        let good = token(server, "a", "osier-agent", "osier-controller");
        let elsewhere = token(server, "a", "osier-agent", "somebody-else");
        let another = token(server, "a", "osier-viewer", "osier-controller");
        let unbound = server.token("osier-agent", &json!({"audiences": ["osier-controller"]}));
        // In the middle of its signature: the last letter has bits that do not count.
        let (head, tail) = good.split_at(good.len() - 20);
        let other = if tail.starts_with('A') { "B" } else { "A" };
        let forged = format!("{head}{other}{}", &tail[1..]);
        let folder = TempDir::new().unwrap();
        for (why, node, machine, token) in [
            ("another's node", "b", "192.0.2.2", &good),
            ("no node", "c", "192.0.2.1", &good),
            ("another's machine", "a", "192.0.2.2", &good),
            ("another audience", "a", "192.0.2.1", &elsewhere),
            ("another account", "a", "192.0.2.1", &another),
            ("no pod's token", "a", "192.0.2.1", &unbound),
            ("a forged token", "a", "192.0.2.1", &forged),
        ] {
            let fleet = controller.fleet(machine);
            let joined = try_join(server, node, &fleet, token.clone(), folder.path()).await;
            let error = joined.expect_err(why).to_string();
            assert!(error.contains("refused"), "{why}: {error}");
        }
        let fleet = controller.fleet("192.0.2.1");
        let joined = try_join(server, "a", &fleet, good, folder.path()).await.unwrap();
        assert_eq!(joined.configuration.blocks[0].cidr.to_string(), "10.244.1.0/24");
        people(server, &controller);
        let standby = Controller::start(server, 1).await;
        by_kubeconfig(server, &[&controller, &standby]).await;
        controller.stop().await;
    });
}

/// An answer of the controller's API, its status and its body.
fn ask(server: &Server, controller: &Controller, args: &[&str]) -> (u16, Value) {
    let url = format!(
        "https://192.0.2.100:{}/apis/osier.dev/v1alpha1",
        controller.config.api.listen.port()
    );
    let mut all = vec!["-sk".to_owned(), "-w".to_owned(), "\n%{http_code}".to_owned()];
    all.extend(args.iter().map(|arg| arg.replace("URL", &url)));
    let out = server.netns.command("curl").args(all).run().unwrap();
    let (body, status) = out.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

fn people(server: &Server, controller: &Controller) {
    let token = |account: &str, audience: &str| {
        let token = server.token(account, &json!({"audiences": [audience]}));
        format!("X-Osier-Authorization: Bearer {token}")
    };
    let viewer = token("osier-viewer", "osier-controller");
    let operator = token("osier-operator", "osier-controller");
    let agent = token("osier-agent", "osier-controller");
    let api = token("osier-viewer", "https://kubernetes.default.svc");
    let (status, body) = ask(server, controller, &["-H", &viewer, "URL/status"]);
    assert_eq!((status, &body["controller"]["store"]["kind"]), (200, &Value::from("kubernetes")));
    for (who, header) in [("an agent", &agent), ("a token for others", &api)] {
        assert_eq!(ask(server, controller, &["-H", header, "URL/status"]).0, 401, "{who}");
    }
    let pause = ["-X", "POST", "URL/nodes/b/pause"];
    assert_eq!(ask(server, controller, &[&["-H", &viewer][..], &pause].concat()).0, 403);
    assert_eq!(ask(server, controller, &[&["-H", &operator][..], &pause].concat()).0, 200);
    until("a pause that is remembered", || {
        let node = server.get("/api/v1/nodes/b");
        match node["metadata"]["annotations"]["osier.dev/paused"].as_str() {
            Some("true") => Ok(()),
            _ => Err(node["metadata"].to_string()),
        }
    });
    // The model is written with kubectl, whoever asks.
    let apply = ["-X", "POST", "-d", "{\"items\": []}", "URL/apply"];
    let (status, body) = ask(server, controller, &[&["-H", &operator][..], &apply].concat());
    let said = body["error"]["message"].as_str().unwrap_or_default();
    assert!(status == 405 && said.contains("kubectl apply"), "{status} {said}");
    // Pods, with what their agents say of them, once they are known.
    until("a pod of the node", || {
        let (status, body) = ask(server, controller, &["-H", &viewer, "URL/pods"]);
        assert_eq!(status, 200);
        let host = |pod: &Value| pod["name"] == "osier-agent-a" && pod["port"] == "Host";
        let mut pods = body["items"].as_array().unwrap().iter();
        pods.any(|pod| host(pod) && pod["node"] == "a").then_some(()).ok_or(body.to_string())
    });
}

/// Through the API server's proxy, as `osier` and `kubectl osier` ask.
async fn by_kubeconfig(server: &Server, controllers: &[&Controller]) {
    // Without a controller manager, nobody else fills it in.
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "osier-controller", "namespace": NAMESPACE},
        "spec": {"ports": [{"name": "api", "port": 6645}]}});
    server.apply(&service.to_string());
    // The API server leads to addresses of pods only.
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "controller", "namespace": NAMESPACE},
        "spec": {"nodeName": "b", "hostNetwork": true,
            "containers": [{"name": "controller", "image": "osier"}]}});
    server.apply(&pod.to_string());
    let status = json!({"status": {"podIP": "192.0.2.100", "podIPs": [{"ip": "192.0.2.100"}]}});
    let status = status.to_string();
    let args = [
        "patch",
        "pod",
        "controller",
        "-n",
        NAMESPACE,
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ];
    server.kubectl(&args).unwrap();
    let subset = |controller: &&Controller| {
        let port = controller.config.api.listen.port();
        let pod = json!({"kind": "Pod", "name": "controller", "namespace": NAMESPACE});
        json!({"addresses": [{"ip": "192.0.2.100", "targetRef": pod}],
            "ports": [{"name": "api", "port": port}]})
    };
    let subsets: Vec<Value> = controllers.iter().map(subset).collect();
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "subsets": subsets,
        "metadata": {"name": "osier-controller", "namespace": NAMESPACE}});
    server.apply(&endpoints.to_string());
    let request = |method: &str, path: &str| {
        let uri = format!("/apis/osier.dev/v1alpha1{path}");
        axum::http::Request::builder().method(method).uri(uri).body(bytes::Bytes::new()).unwrap()
    };
    let admin = Proxy::open(Some(&server.admin()), None, NAMESPACE).await.unwrap();
    // The API server hears of a new Service in a moment.
    let begun = std::time::Instant::now();
    while admin.send(request("GET", "/pods")).await.unwrap().status() != 200 {
        assert!(begun.elapsed() < crate::server::PATIENCE, "no way to the controller");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // One of two does not lead: whoever asks does not notice.
    for _ in 0..5 {
        let answer = admin.send(request("GET", "/pods")).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
    let answer = admin.send(request("POST", "/nodes/b/resume")).await.unwrap();
    assert_eq!(answer.status(), 200);
    // One who may look, and one who may not even that.
    server.kubectl(&["create", "serviceaccount", "looker", "-n", NAMESPACE]).unwrap();
    let kubeconfig = server.account("looker");
    let refused = Proxy::open(Some(&kubeconfig), None, NAMESPACE).await.err().unwrap();
    assert!(refused.to_string().contains("osier-viewer"), "{refused}");
    let account = format!("{NAMESPACE}:looker");
    let bind = [
        "create",
        "rolebinding",
        "looker",
        "--role=osier-viewer",
        "-n",
        NAMESPACE,
        "--serviceaccount",
        &account,
    ];
    server.kubectl(&bind).unwrap();
    let looker = loop {
        match Proxy::open(Some(&kubeconfig), None, NAMESPACE).await {
            Ok(looker) => break looker,
            Err(error) => assert!(begun.elapsed() < 2 * crate::server::PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let answer = looker.send(request("GET", "/status")).await.unwrap();
    assert_eq!(answer.status(), 200);
    let answer = looker.send(request("POST", "/nodes/b/pause")).await.unwrap();
    assert_eq!(answer.status(), 403);
}
