//! How the trap core is built: how many methods a type has, how many files get at the threads and
//! processes in their table, and that no modules use one another in a circle. The numbers are upper
//! bounds, which only go down: what lowers one lowers its bound here, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Expr, ImplItem, Item, ItemMod, Member, Type, UseTree};

/// No type has more methods than this.
const MAX_METHODS: usize = 60;
/// The type that has all threads and processes, the field of it, and how many files get at what is in
/// it: by a method that gives a `Thread` or a `Process`.
const TABLE: (&str, &str) = ("ProcessTable", "table");
const FILES_WITH_THREADS: usize = 3;
const FILES_WITH_PROCESSES: usize = 15;
/// What says that code relies on a virtual clock, and how often: it was 103 times before there was a
/// `VirtualWorker`.
const VIRTUAL_TIME: [&str; 2] = ["virtual time", "a virtual worker's clock"];
const VIRTUAL_TIME_EXPECTED: usize = 2;
/// The crates in which no modules use one another in a circle, those above and below one another in
/// the tree of modules aside.
const CRATES: [&str; 2] = ["vink-trap", "vink-sched"];

/// A module: its path from the crate's root, such as `["vink_trap", "sched", "batch"]`.
type Module = Vec<String>;

/// What one file has.
#[derive(Default)]
struct Shape {
    methods: BTreeMap<String, usize>,
    /// Of the table: its methods that others may call, with the types that their results name.
    table_methods: BTreeMap<String, BTreeSet<String>>,
    /// Methods of a worker's table that are called.
    table_calls: BTreeSet<String>,
    virtual_time_expected: usize,
    /// Paths that are named, from `crate`, `self` or `super` on.
    paths: BTreeSet<Vec<String>>,
    /// What the file makes known under its own name: name, and the path it has.
    exports: Vec<(String, Vec<String>)>,
}

fn is_test(item: &ItemMod) -> bool {
    item.attrs.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

/// All paths of a `use`.
fn leaves(tree: &UseTree, path: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            leaves(&part.tree, path, all);
            path.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, path, all)),
        UseTree::Name(name) => all.push([&path[..], &[name.ident.to_string()]].concat()),
        UseTree::Rename(name) => all.push([&path[..], &[name.ident.to_string()]].concat()),
        UseTree::Glob(_) => all.push(path.clone()),
    }
}

/// A method that others may call, and the types that its result names.
fn results(item: &ImplItem) -> Option<(String, BTreeSet<String>)> {
    #[derive(Default)]
    struct Names(BTreeSet<String>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_ident(&mut self, ident: &'ast syn::Ident) {
            self.0.insert(ident.to_string());
        }
    }
    let ImplItem::Fn(method) = item else {
        return None;
    };
    let mut names = Names::default();
    names.visit_return_type(&method.sig.output);
    let is_private = matches!(method.vis, syn::Visibility::Inherited);
    (!is_private).then(|| (method.sig.ident.to_string(), names.0))
}

/// Whether it is the table of `self`, of a worker or of its tasks.
fn is_table(expr: &Expr) -> bool {
    let named = |member: &Member, name| matches!(member, Member::Named(own) if own == name);
    let field = match expr {
        Expr::Field(field) => field,
        // A parameter of this name is it, too: no other table has methods of these names.
        Expr::Path(path) => return path.path.is_ident(TABLE.1),
        _ => return false,
    };
    let is_owner = match &*field.base {
        Expr::Path(base) => ["self", "worker", "tasks"]
            .map(|name| base.path.is_ident(name))
            .contains(&true),
        Expr::Field(base) => ["worker", "tasks"]
            .map(|name| named(&base.member, name))
            .contains(&true),
        _ => false,
    };
    is_owner && named(&field.member, TABLE.1)
}

impl<'ast> Visit<'ast> for Shape {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(item) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let (None, Type::Path(of)) = (&item.trait_, &*item.self_ty) {
            let name = of.path.segments.last().expect("a type's name");
            let count = |item: &&ImplItem| matches!(item, ImplItem::Fn(_));
            *self.methods.entry(name.ident.to_string()).or_default() +=
                item.items.iter().filter(count).count();
            if name.ident == TABLE.0 {
                self.table_methods
                    .extend(item.items.iter().filter_map(results));
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut all = Vec::new();
        leaves(&item.tree, &mut Vec::new(), &mut all);
        if !matches!(item.vis, syn::Visibility::Inherited) {
            let named = |path: &Vec<String>| Some((path.last()?.clone(), path.clone()));
            self.exports.extend(all.iter().filter_map(named));
        }
        self.paths.extend(all);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if is_table(&call.receiver) {
            self.table_calls.insert(call.method.to_string());
        }
        if call.method == "expect" {
            let expects = |argument: &Expr| {
                matches!(argument, Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. })
                    if VIRTUAL_TIME.contains(&text.value().as_str()))
            };
            self.virtual_time_expected += usize::from(call.args.iter().any(expects));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if parts.len() > 1 {
            self.paths.insert(parts);
        }
        visit::visit_path(self, path);
    }
}

/// The files of a folder, and of those in it.
fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, all),
            false => all.push(path),
        }
    }
}

/// Each module of a crate beside this one, and what it has.
fn shapes(name: &str) -> BTreeMap<Module, Shape> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(name)
        .join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let shape = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let mut shape = Shape::default();
        shape.visit_file(&parsed);
        let inline =
            |item: &Item| matches!(item, Item::Mod(m) if m.content.is_some() && !is_test(m));
        assert!(!parsed.items.iter().any(inline), "{}", file.display());
        let inside = file.strip_prefix(&root).unwrap().with_extension("");
        let parts = inside.iter().map(|part| part.to_str().unwrap().to_owned());
        let parts = parts.filter(|part| part != "lib" && part != "mod");
        (
            std::iter::once(name.replace('-', "_"))
                .chain(parts)
                .collect(),
            shape,
        )
    };
    files.into_iter().map(shape).collect()
}

/// The module that a path named in a module leads to.
fn target(all: &BTreeMap<Module, Shape>, from: &Module, path: &[String]) -> Option<Module> {
    let mut at: Module = match path.first()?.as_str() {
        "crate" => from[..1].to_vec(),
        "self" => from.clone(),
        "super" => from[..from.len() - 1].to_vec(),
        first => {
            let child = [&from[..], &[first.to_owned()]].concat();
            let found = all.contains_key(&child);
            found.then_some(child)?
        }
    };
    for part in &path[1..] {
        let child = [&at[..], std::slice::from_ref(part)].concat();
        if part == "super" {
            at.pop();
        } else if all.contains_key(&child) {
            at = child;
        } else {
            // It may be another module's, made known here.
            let exports = &all.get(&at)?.exports;
            return match exports.iter().find(|(name, _)| name == part) {
                Some((_, path)) => target(all, &at, path),
                None => Some(at),
            };
        }
    }
    Some(at)
}

/// Which modules each module uses, but for those above and below it.
fn uses(all: &BTreeMap<Module, Shape>) -> BTreeMap<&Module, BTreeSet<Module>> {
    let of = |(module, shape): (_, &Shape)| {
        let module: &Module = module;
        let targets = shape
            .paths
            .iter()
            .filter_map(|path| target(all, module, path));
        let is_other = |to: &Module| !to.starts_with(module) && !module.starts_with(to);
        (module, targets.filter(is_other).collect())
    };
    all.iter().map(of).collect()
}

/// The modules that use one another in the largest circle.
fn largest_circle(all: &BTreeMap<Module, Shape>) -> Vec<Module> {
    let uses = uses(all);
    let reached_from = |start: &Module| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![start.clone()]);
        while let Some(module) = open.pop() {
            for next in &uses[&module] {
                if reached.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        reached
    };
    let reached: BTreeMap<&Module, _> = all.keys().map(|m| (m, reached_from(m))).collect();
    let circle = |start: &&Module| -> Vec<Module> {
        let both = |other: &&Module| reached[other].contains(*start);
        let in_reach = reached[start].iter().filter(both);
        in_reach.cloned().collect()
    };
    let circles = reached.keys().map(circle);
    circles.max_by_key(Vec::len).unwrap_or_default()
}

/// Fails where a number is above its bound.
fn holds(what: &str, found: usize, bound: usize) {
    assert!(
        found <= bound,
        "{what}: {found}, where {bound} are the most"
    );
}

#[test]
fn types_have_few_methods() {
    let mut methods: BTreeMap<String, usize> = BTreeMap::new();
    for (name, count) in shapes("vink-trap").into_values().flat_map(|s| s.methods) {
        *methods.entry(name).or_default() += count;
    }
    let large: Vec<_> = methods.iter().filter(|(_, n)| **n > MAX_METHODS).collect();
    assert!(methods.contains_key("Worker"), "is this still what counts?");
    assert!(large.is_empty(), "more than {MAX_METHODS}: {large:?}");
}

#[test]
fn few_files_get_at_what_the_table_has() {
    let all = shapes("vink-trap");
    let methods: Vec<_> = all.values().flat_map(|s| &s.table_methods).collect();
    let count = |what: &str| {
        let gives = |method: &String| {
            let mut all = methods.iter();
            all.any(|(name, types)| *name == method && types.contains(what))
        };
        let gets = |shape: &&Shape| shape.table_calls.iter().any(gives);
        let files = all.values().filter(gets).count();
        assert!(
            files > 0,
            "no file gets at a {what}: is this still what counts?"
        );
        files
    };
    holds("files with threads", count("Thread"), FILES_WITH_THREADS);
    holds(
        "files with processes",
        count("Process"),
        FILES_WITH_PROCESSES,
    );
}

#[test]
fn the_scheduler_is_given_and_not_expected() {
    let all = shapes("vink-trap").into_values();
    let expected = all.map(|shape| shape.virtual_time_expected).sum();
    holds("virtual time expected", expected, VIRTUAL_TIME_EXPECTED);
}

#[test]
fn modules_do_not_use_one_another_in_circles() {
    for of in CRATES {
        let circle = largest_circle(&shapes(of));
        assert!(circle.is_empty(), "modules of {of} in a circle: {circle:?}");
    }
}
