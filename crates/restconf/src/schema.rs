//! What may stand where: the nodes of the published modules.

use crate::yang::{self, Statement};
use std::sync::LazyLock;

/// That something has no address, as Kubernetes says it of headless Services.
pub(crate) const NONE: &str = "None";

/// All modules.
#[derive(Debug)]
pub struct Schema {
    modules: Vec<Module>,
}

/// A published module.
#[derive(Debug)]
pub struct Module {
    /// Its name, also the prefix of its members.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its revision.
    pub revision: String,
    /// Its text.
    pub text: &'static str,
    /// Its containers.
    pub roots: Vec<Node>,
}

/// A node of the schema.
#[derive(Debug)]
pub struct Node {
    /// Its name, without a prefix.
    pub name: String,
    /// The module that it is of.
    pub module: String,
    /// Whether clients may write it.
    pub is_config: bool,
    /// What it is.
    pub kind: NodeKind,
}

/// What a node is.
#[derive(Debug)]
pub enum NodeKind {
    /// One of each member.
    Container(Vec<Node>),
    /// Entries, told apart by their keys.
    List {
        /// The names of the keys, in order.
        keys: Vec<String>,
        /// The members of an entry.
        members: Vec<Node>,
    },
    /// One value.
    Leaf(LeafType),
    /// Values.
    LeafList(LeafType),
}

/// What a value may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeafType {
    /// Any text.
    Text,
    /// RFC 4122, kept in lower case.
    Uuid,
    /// Of either family.
    Address,
    /// The same, or `None`: whoever says so wants none, and not any.
    AddressOrNone,
    /// An address and a length.
    Prefix,
    /// An Ethernet address.
    Mac,
    /// From the first to the second.
    Integer(i64, i64),
    /// True or false.
    Boolean,
    /// One of these.
    Enumeration(Vec<String>),
}

const FILES: [&str; 10] = [
    include_str!("../yang/pod.yang"),
    include_str!("../yang/service.yang"),
    include_str!("../yang/k8s-node.yang"),
    include_str!("../yang/k8s-cluster.yang"),
    include_str!("../yang/k8s.yang"),
    include_str!("../yang/dhcp_allocation_pool.yang"),
    include_str!("../yang/elan.yang"),
    include_str!("../yang/l3vpn.yang"),
    include_str!("../yang/odl-nat.yang"),
    include_str!("../yang/ietf-interfaces.yang"),
];

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let module = |text: &'static &'static str| {
        let module = yang::parse(text).expect("published modules are read by the tests");
        Module::new(&module, text)
    };
    Schema { modules: FILES.iter().map(module).collect() }
});

// === impl Schema ===

impl Schema {
    /// The published modules.
    pub fn get() -> &'static Self {
        &SCHEMA
    }

    /// All modules.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// A module by name.
    pub fn module(&self, name: &str) -> Option<&Module> {
        self.modules.iter().find(|module| module.name == name)
    }

    /// A container at the top.
    pub fn root(&self, module: &str, name: &str) -> Option<&Node> {
        self.module(module)?.roots.iter().find(|root| root.name == name)
    }

    /// All containers at the top.
    pub fn roots(&self) -> impl Iterator<Item = &Node> {
        self.modules.iter().flat_map(|module| &module.roots)
    }
}

// === impl Module ===

impl Module {
    fn new(statement: &Statement, text: &'static str) -> Self {
        let of = |keyword| statement.argument_of(keyword).unwrap_or_default().to_owned();
        let name = statement.argument.clone();
        let roots = statement.all("container").map(|root| Node::new(root, &name, true)).collect();
        let (namespace, revision) = (of("namespace"), of("revision"));
        Self { name, namespace, revision, text, roots }
    }
}

// === impl Node ===

impl Node {
    fn new(statement: &Statement, module: &str, is_config: bool) -> Self {
        let is_config = is_config && statement.argument_of("config") != Some("false");
        let members = || {
            let is_node = |s: &&Statement| {
                ["container", "list", "leaf", "leaf-list"].contains(&s.keyword.as_str())
            };
            let nodes = statement.inner.iter().filter(is_node);
            nodes.map(|s| Self::new(s, module, is_config)).collect()
        };
        let leaf = || LeafType::new(statement.all("type").next());
        let kind = match statement.keyword.as_str() {
            "container" => NodeKind::Container(members()),
            "list" => {
                let keys = statement.argument_of("key").unwrap_or_default();
                let keys = keys.split_whitespace().map(str::to_owned).collect();
                NodeKind::List { keys, members: members() }
            }
            "leaf-list" => NodeKind::LeafList(leaf()),
            _ => NodeKind::Leaf(leaf()),
        };
        Self { name: statement.argument.clone(), module: module.to_owned(), is_config, kind }
    }

    /// The nodes in it.
    pub fn members(&self) -> &[Node] {
        match &self.kind {
            NodeKind::Container(members) | NodeKind::List { members, .. } => members,
            NodeKind::Leaf(_) | NodeKind::LeafList(_) => &[],
        }
    }

    /// A node in it, by its name.
    pub fn member(&self, name: &str) -> Option<&Node> {
        self.members().iter().find(|member| member.name == name)
    }

    /// The names of its keys, if it is a list.
    pub fn keys(&self) -> &[String] {
        match &self.kind {
            NodeKind::List { keys, .. } => keys,
            _ => &[],
        }
    }

    /// Whether it is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.kind, NodeKind::List { .. })
    }

    /// What a value of it may be, if it has any.
    pub fn leaf_type(&self) -> Option<&LeafType> {
        match &self.kind {
            NodeKind::Leaf(leaf) | NodeKind::LeafList(leaf) => Some(leaf),
            _ => None,
        }
    }
}

// === impl LeafType ===

impl LeafType {
    fn new(statement: Option<&Statement>) -> Self {
        let Some(statement) = statement else { return Self::Text };
        match statement.argument.as_str() {
            "yang:uuid" => Self::Uuid,
            "inet:ip-address" => Self::Address,
            // The only one, as a test says.
            "union" => Self::AddressOrNone,
            "inet:ip-prefix" => Self::Prefix,
            "yang:phys-address" => Self::Mac,
            "int32" => Self::Integer(i32::MIN.into(), i32::MAX.into()),
            "uint32" => Self::Integer(0, u32::MAX.into()),
            "boolean" => Self::Boolean,
            "enumeration" => {
                Self::Enumeration(statement.all("enum").map(|e| e.argument.clone()).collect())
            }
            _ => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_modules_are_the_schema() {
        let schema = Schema::get();
        assert_eq!(schema.roots().count(), 14);
        let pods = schema.root("pod", "coe").unwrap().member("pods").unwrap();
        assert_eq!(pods.keys(), ["uid"]);
        assert!(pods.is_config);
        assert_eq!(pods.member("uid").unwrap().leaf_type(), Some(&LeafType::Uuid));
        let port = schema.root("service", "service-information").unwrap();
        let port = port.member("services").unwrap().member("service-ports").unwrap();
        assert_eq!(port.keys(), ["name", "port"]);
        assert!(
            !schema
                .root("elan", "elan-instances")
                .unwrap()
                .member("elan-instance")
                .unwrap()
                .is_config
        );
        let kinds: Vec<_> = schema.modules().iter().map(|m| m.revision.len()).collect();
        assert!(kinds.iter().all(|n| *n == 10), "each has a revision");
    }

    /// A type that is not known here would be taken for text.
    #[test]
    fn all_types_of_the_modules_are_known() {
        for text in FILES {
            let known = [
                "string",
                "yang:uuid",
                "inet:ip-address",
                "inet:ip-prefix",
                "yang:phys-address",
                "int32",
                "uint32",
                "boolean",
                "enumeration",
                "union",
            ];
            let mut all = vec![yang::parse(text).unwrap()];
            while let Some(statement) = all.pop() {
                if statement.keyword == "type" {
                    assert!(known.contains(&statement.argument.as_str()), "{}", statement.argument);
                }
                if statement.argument == "union" {
                    let [address, word] = statement.inner.as_slice() else { panic!("two types") };
                    assert_eq!(address.argument, "inet:ip-address");
                    assert_eq!(word.argument_of("enum"), Some(NONE));
                }
                all.extend(statement.inner);
            }
        }
    }
}
