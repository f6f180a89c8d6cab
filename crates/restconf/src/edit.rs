//! Methods on data: which units are others then. Nothing is changed here.

use crate::body::{Normalised, Rule, find, keys_of, read, read_list};
use crate::datastore::{Datastore, UnitChange, container_path, split, units_of};
use crate::error::{ErrorTag, Problem};
use crate::path::{Path, Step};
use crate::schema::{Node, NodeKind, Schema};
use serde_json::{Map, Value};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Makes or replaces the target.
    Put,
    /// Makes something in the target.
    Post,
    /// Merges into the target.
    Patch,
    /// Removes the target.
    Delete,
}

/// A request that changes data.
#[derive(Debug)]
pub struct Edit<'a> {
    /// What it does.
    pub method: Method,
    /// To what.
    pub path: &'a Path,
    /// With what.
    pub body: Option<&'a Value>,
}

/// What a request comes to.
#[derive(Debug, Default)]
pub struct Edited {
    /// The units that are others then.
    pub changes: Vec<UnitChange>,
    /// All units that the request says something of, also those that stay as they are.
    pub named: Vec<String>,
    /// Whether the target, or what was made in it, is new.
    pub is_new: bool,
    /// What was taken although the schema says otherwise.
    pub normalised: Normalised,
}

/// A request on its way.
struct Work<'a> {
    data: &'a Datastore,
    path: &'a Path,
    at: String,
    edited: Edited,
}

// === impl Edit ===

impl Edit<'_> {
    /// What it does to the data, if it can be done.
    pub fn of(&self, data: &Datastore) -> Result<Edited, Problem> {
        let mut work =
            Work { data, path: self.path, at: self.path.to_text(), edited: Edited::default() };
        if self.path.steps.iter().any(|step| !step.node.is_config) {
            return Err(work.refuse(ErrorTag::OperationNotSupported, "this is only to look at"));
        }
        if let Some(Step { node, keys }) = self.path.target()
            && node.is_list()
            && keys.is_empty()
            && self.method != Method::Post
        {
            let said = format!("name an entry of {} by its {}", node.name, node.keys().join(", "));
            return Err(work.refuse(ErrorTag::InvalidValue, said));
        }
        if self.method == Method::Delete {
            work.delete()?;
        } else {
            let said = || Problem::new(ErrorTag::MalformedMessage, "", "a body is missing");
            let body = self.body.ok_or_else(said)?;
            let content = work.content(self.method, body)?;
            work.write(self.method, &content)?;
        }
        let data = work.data;
        let is_put = work.edited.changes.iter().filter(|(_, value)| value.is_some());
        work.edited.named = is_put.map(|(path, _)| path.clone()).collect();
        let is_other = |(path, value): &UnitChange| data.unit(path) != value.as_ref();
        work.edited.changes.retain(is_other);
        Ok(work.edited)
    }
}

/// What a body has for a target: the target's own data, or, with a POST, only what is new in it.
enum Content {
    /// Of containers at the top.
    Roots(Vec<(&'static Node, Value)>),
    /// Of the target.
    Target(Value),
}

// === impl Work ===

impl Work<'_> {
    fn refuse(&self, tag: ErrorTag, said: impl Into<String>) -> Problem {
        Problem::new(tag, self.at.clone(), said)
    }

    fn content(&mut self, method: Method, body: &Value) -> Result<Content, Problem> {
        let Some(object) = body.as_object().filter(|object| !object.is_empty()) else {
            let said = "a body is an object that names what it holds";
            return Err(self.refuse(ErrorTag::MalformedMessage, said));
        };
        let Some(target) = self.path.target().cloned() else {
            return self.roots(method, object);
        };
        let node = target.node;
        let names_target = object.len() == 1 && object.keys().all(|name| is_named(node, name));
        let is_post = method == Method::Post;
        if names_target == is_post {
            // A POST names something in the target, all others the target itself; clients mix it up.
            if !is_post && !matches!(node.kind, NodeKind::Container(_)) {
                let said = format!("the body has to name {}", node.name);
                return Err(self.refuse(ErrorTag::BadElement, said));
            }
            self.edited.normalised.note(Rule::Wrapping);
        }
        let Some(value) = object.values().next().filter(|_| names_target) else {
            return self.members(&target, object).map(Content::Target);
        };
        if node.is_list() {
            return self.entry(&target, value).map(Content::Target);
        }
        read(node, value, &self.at, &mut self.edited.normalised).map(Content::Target)
    }

    fn roots(&mut self, method: Method, object: &Map<String, Value>) -> Result<Content, Problem> {
        if method == Method::Put {
            let said = "all data cannot be replaced at once: name a container";
            return Err(self.refuse(ErrorTag::OperationNotSupported, said));
        }
        let mut roots = Vec::new();
        for (name, value) in object {
            let root = name.split_once(':').and_then(|(m, n)| Schema::get().root(m, n));
            let Some(root) = root.filter(|root| root.is_config) else {
                let said = format!("{name:?} is not known here, or only to look at");
                return Err(self.refuse(ErrorTag::UnknownElement, said));
            };
            let at = format!("/{name}");
            roots.push((root, read(root, value, &at, &mut self.edited.normalised)?));
        }
        Ok(Content::Roots(roots))
    }

    /// Some members of the target.
    fn members(&mut self, target: &Step, object: &Map<String, Value>) -> Result<Value, Problem> {
        if !target.node.is_list() {
            let body = Value::Object(object.clone());
            return read(target.node, &body, &self.at, &mut self.edited.normalised);
        }
        // The keys are the target's: they need not be said again.
        let mut members = Map::new();
        for (name, value) in object {
            let member = find(target.node, name, &self.at)?;
            let at = format!("{}/{}", self.at, member.name);
            let notes = &mut self.edited.normalised;
            let value = match member.is_list() {
                true => read_list(member, value, &at, notes)?.into(),
                false => read(member, value, &at, notes)?,
            };
            members.insert(member.name.clone(), value);
        }
        Ok(Value::Object(members))
    }

    /// The one entry of a list that the path names, or, with a POST, those that are new.
    fn entry(&mut self, target: &Step, value: &Value) -> Result<Value, Problem> {
        let entries = read_list(target.node, value, &self.at, &mut self.edited.normalised)?;
        if target.keys.is_empty() {
            return Ok(entries.into());
        }
        let [entry] = &entries[..] else {
            let said = format!("the body has {} entries, and the path names one", entries.len());
            return Err(self.refuse(ErrorTag::BadElement, said));
        };
        let keys = keys_of(target.node, entry);
        if keys != target.keys {
            let said = format!(
                "the body's {} is {}, and the path's {}",
                target.node.keys().join(", "),
                keys.join(", "),
                target.keys.join(", ")
            );
            return Err(self.refuse(ErrorTag::BadElement, said));
        }
        Ok(entry.clone())
    }

    fn write(&mut self, method: Method, content: &Content) -> Result<(), Problem> {
        match content {
            Content::Roots(roots) => roots.iter().try_for_each(|(root, value)| {
                self.write_whole(method, root, &format!("{}:{}", root.module, root.name), value)
            }),
            Content::Target(value) => {
                if let Some((unit, inner)) = split(&self.path.steps) {
                    return self.write_unit(method, &unit, inner, value);
                }
                let Some(target) = self.path.target() else { return Ok(()) };
                let path = container_path(&self.path.steps);
                self.write_whole(method, target.node, &path, value)
            }
        }
    }

    /// A container of units, or some of a list's.
    fn write_whole(
        &mut self,
        method: Method,
        node: &Node,
        path: &str,
        value: &Value,
    ) -> Result<(), Problem> {
        let mut units = Vec::new();
        units_of(node, path, value, &mut units);
        let before: Vec<&String> = self.data.under(path).map(|(path, _)| path).collect();
        self.edited.is_new = before.is_empty() || method == Method::Post;
        for (path, value) in &units {
            let was = self.data.unit(path);
            let value = match (method, was) {
                (Method::Post, Some(_)) => {
                    let said = "this is there already";
                    return Err(Problem::new(ErrorTag::DataExists, format!("/{path}"), said));
                }
                (Method::Patch, Some(was)) => {
                    let mut merged = was.clone();
                    merge(unit_node(path), &mut merged, value);
                    merged
                }
                _ => value.clone(),
            };
            self.edited.changes.push((path.clone(), Some(value)));
        }
        if method == Method::Put {
            let is_kept = |path: &&String| units.iter().any(|(kept, _)| kept == *path);
            let gone = before.into_iter().filter(|path| !is_kept(path));
            self.edited.changes.extend(gone.map(|path| (path.clone(), None)));
        }
        Ok(())
    }

    /// A unit, or something in it.
    fn write_unit(
        &mut self,
        method: Method,
        unit: &str,
        inner: &[Step],
        value: &Value,
    ) -> Result<(), Problem> {
        let missing = self.refuse(ErrorTag::DataMissing, "this is not there");
        let exists = self.refuse(ErrorTag::DataExists, "this is there already");
        let was = self.data.unit(unit);
        let mut now = match (was, method) {
            (Some(was), _) => was.clone(),
            (None, Method::Put) if inner.is_empty() => Value::Null,
            (None, _) => return Err(missing),
        };
        let keys = |value: &Value| keys_of(unit_node(unit), value);
        let before = keys(&now);
        let node = self.path.target().map_or_else(|| unit_node(unit), |target| target.node);
        self.edited.is_new = was.is_none();
        match (method, inner) {
            (Method::Put, []) => now = value.clone(),
            (Method::Put, inner) => {
                self.edited.is_new = put_in(&mut now, inner, value).ok_or(missing)?;
            }
            (_, inner) => {
                let target = find_in(&mut now, inner).ok_or(missing)?;
                if method == Method::Post && overlaps(node, target, value) {
                    return Err(exists);
                }
                self.edited.is_new = method == Method::Post;
                merge(node, target, value);
            }
        }
        if was.is_some() && keys(&now) != before {
            let said = "a key cannot be changed: remove the entry, and make another";
            return Err(self.refuse(ErrorTag::BadElement, said));
        }
        self.edited.changes.push((unit.to_owned(), Some(now)));
        Ok(())
    }

    /// What is not there is as good as removed.
    fn delete(&mut self) -> Result<(), Problem> {
        if self.path.steps.is_empty() {
            let said = "all data cannot be removed at once: name a container";
            return Err(self.refuse(ErrorTag::OperationNotSupported, said));
        }
        match split(&self.path.steps) {
            None => {
                let path = container_path(&self.path.steps);
                let gone = self.data.under(&path).map(|(path, _)| (path.clone(), None));
                self.edited.changes.extend(gone);
            }
            Some((unit, [])) => self.edited.changes.push((unit, None)),
            Some((unit, inner)) => {
                let Some(mut now) = self.data.unit(&unit).cloned() else { return Ok(()) };
                let above = inner.len().checked_sub(2).map_or(unit_node(&unit), |i| inner[i].node);
                if inner.last().is_some_and(|step| above.keys().contains(&step.node.name)) {
                    let said = "a key cannot be removed without its entry";
                    return Err(self.refuse(ErrorTag::BadElement, said));
                }
                remove_in(&mut now, inner);
                self.edited.changes.push((unit, Some(now)));
            }
        }
        Ok(())
    }
}

/// Whether a body's member is this node.
fn is_named(node: &Node, name: &str) -> bool {
    match name.split_once(':') {
        Some((module, bare)) => module == node.module && bare == node.name,
        None => name == node.name,
    }
}

/// The schema of a unit, by its path.
pub(crate) fn unit_node(path: &str) -> &'static Node {
    let bare = path.split_once('=').map_or(path, |(bare, _)| bare);
    let mut names = bare.split('/');
    let root = names.next().and_then(|root| root.split_once(':'));
    let root = root.and_then(|(module, name)| Schema::get().root(module, name));
    let root = root.expect("units are made of paths that the schema has");
    names.fold(root, |node, name| {
        node.member(name).expect("units are made of paths that the schema has")
    })
}

fn find_in<'a>(value: &'a mut Value, inner: &[Step]) -> Option<&'a mut Value> {
    inner.iter().try_fold(value, |value, step| {
        let found = value.get_mut(&step.node.name)?;
        match step.keys.is_empty() {
            true => Some(found),
            false => entry_of(step.node, found, &step.keys),
        }
    })
}

fn entry_of<'a>(node: &Node, list: &'a mut Value, keys: &[String]) -> Option<&'a mut Value> {
    list.as_array_mut()?.iter_mut().find(|entry| keys_of(node, entry) == keys)
}

/// Puts a value in its place; whether it is new there. Nothing if there is no such place.
fn put_in(value: &mut Value, inner: &[Step], new: &Value) -> Option<bool> {
    let (last, above) = inner.split_last()?;
    let parent = find_in(value, above)?.as_object_mut()?;
    if last.keys.is_empty() {
        return Some(parent.insert(last.node.name.clone(), new.clone()).is_none());
    }
    let list = parent.entry(&last.node.name).or_insert_with(|| Value::Array(Vec::new()));
    if let Some(entry) = entry_of(last.node, list, &last.keys) {
        *entry = new.clone();
        return Some(false);
    }
    list.as_array_mut()?.push(new.clone());
    Some(true)
}

fn remove_in(value: &mut Value, inner: &[Step]) -> Option<()> {
    let (last, above) = inner.split_last()?;
    let parent = find_in(value, above)?.as_object_mut()?;
    if !last.keys.is_empty() {
        let list = parent.get_mut(&last.node.name)?.as_array_mut()?;
        list.retain(|entry| keys_of(last.node, entry) != last.keys);
        if !list.is_empty() {
            return Some(());
        }
    }
    parent.remove(&last.node.name).map(drop)
}

/// Whether some of what is new is there already.
fn overlaps(node: &Node, old: &Value, new: &Value) -> bool {
    node.members().iter().any(|member| match (old.get(&member.name), new.get(&member.name)) {
        (Some(Value::Array(old)), Some(Value::Array(new))) if member.is_list() => {
            let is_there = |e: &Value| old.iter().any(|o| keys_of(member, o) == keys_of(member, e));
            new.iter().any(is_there)
        }
        (Some(_), Some(_)) => !node.keys().contains(&member.name),
        _ => false,
    })
}

/// Merges data of a node into other data of it: entries by their keys.
fn merge(node: &Node, old: &mut Value, new: &Value) {
    let (Some(into), Some(from)) = (old.as_object_mut(), new.as_object()) else {
        *old = new.clone();
        return;
    };
    for (name, value) in from {
        let Some(member) = node.member(name) else { continue };
        let Some(was) = into.get_mut(name) else {
            into.insert(name.clone(), value.clone());
            continue;
        };
        match (&member.kind, was.as_array_mut(), value.as_array()) {
            (NodeKind::List { .. }, Some(entries), Some(more)) => {
                for entry in more {
                    let keys = keys_of(member, entry);
                    match entries.iter_mut().find(|e| keys_of(member, e) == keys) {
                        Some(found) => merge(member, found, entry),
                        None => entries.push(entry.clone()),
                    }
                }
            }
            (NodeKind::LeafList(_), Some(values), Some(more)) => {
                let new: Vec<Value> =
                    more.iter().filter(|v| !values.contains(v)).cloned().collect();
                values.extend(new);
            }
            (NodeKind::Container(_), ..) => merge(member, was, value),
            _ => *was = value.clone(),
        }
    }
}
