//! WIT functions and types as text: by their names, for people, and written out to the ground, for
//! comparing. Two functions with the same full text have the same canonical ABI.

use std::fmt::Write as _;

use wit_parser::{Function, FunctionKind, Handle, Resolve, Type, TypeDefKind, TypeId, TypeOwner};

/// As it stands in a WIT file: `func(name: string) -> result<_, error>`.
pub(crate) fn function(resolve: &Resolve, function: &Function) -> String {
    Writer { resolve, full: false, out: String::new() }.function(function)
}

/// With every named type written out.
pub(crate) fn full_function(resolve: &Resolve, function: &Function) -> String {
    Writer { resolve, full: true, out: String::new() }.function(function)
}

/// A type's definition, the types in it by their names.
pub(crate) fn definition(resolve: &Resolve, id: TypeId) -> String {
    let mut writer = Writer { resolve, full: false, out: String::new() };
    writer.define(id);
    writer.out
}

/// A type's definition with every named type written out.
pub(crate) fn full_definition(resolve: &Resolve, id: TypeId) -> String {
    let mut writer = Writer { resolve, full: true, out: String::new() };
    writer.define(id);
    writer.out
}

struct Writer<'a> {
    resolve: &'a Resolve,
    full: bool,
    out: String,
}

impl Writer<'_> {
    fn function(mut self, function: &Function) -> String {
        self.out.push_str(match function.kind {
            FunctionKind::Freestanding | FunctionKind::Method(_) => "func(",
            FunctionKind::Static(_) => "static func(",
            FunctionKind::Constructor(_) => "constructor(",
            FunctionKind::AsyncFreestanding | FunctionKind::AsyncMethod(_) => "async func(",
            FunctionKind::AsyncStatic(_) => "static async func(",
        });
        for (at, param) in function.params.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let _ = write!(self.out, "{comma}{}: ", param.name);
            self.ty(&param.ty);
        }
        self.out.push(')');
        if let Some(result) = &function.result {
            self.out.push_str(" -> ");
            self.ty(result);
        }
        self.out
    }

    fn ty(&mut self, ty: &Type) {
        match ty {
            Type::Bool => self.out.push_str("bool"),
            Type::U8 => self.out.push_str("u8"),
            Type::U16 => self.out.push_str("u16"),
            Type::U32 => self.out.push_str("u32"),
            Type::U64 => self.out.push_str("u64"),
            Type::S8 => self.out.push_str("s8"),
            Type::S16 => self.out.push_str("s16"),
            Type::S32 => self.out.push_str("s32"),
            Type::S64 => self.out.push_str("s64"),
            Type::F32 => self.out.push_str("f32"),
            Type::F64 => self.out.push_str("f64"),
            Type::Char => self.out.push_str("char"),
            Type::String => self.out.push_str("string"),
            Type::ErrorContext => self.out.push_str("error-context"),
            Type::Id(id) => match &self.resolve.types[*id].name {
                Some(name) if !self.full => self.out.push_str(name),
                _ => self.define(*id),
            },
        }
    }

    fn define(&mut self, id: TypeId) {
        let resolve = self.resolve;
        match &resolve.types[id].kind {
            TypeDefKind::Record(record) => {
                self.list(
                    "record { ",
                    record.fields.iter().map(|field| (field.name.as_str(), Some(&field.ty))),
                );
            }
            TypeDefKind::Variant(variant) => {
                self.cases(variant.cases.iter().map(|case| (case.name.as_str(), case.ty.as_ref())));
            }
            TypeDefKind::Enum(cases) => {
                self.list("enum { ", cases.cases.iter().map(|case| (case.name.as_str(), None)))
            }
            TypeDefKind::Flags(flags) => {
                self.list("flags { ", flags.flags.iter().map(|flag| (flag.name.as_str(), None)))
            }
            // What it is does not show; whose it is decides.
            TypeDefKind::Resource => {
                let definition = &resolve.types[id];
                let owner = match definition.owner {
                    TypeOwner::Interface(interface) => resolve.id_of(interface),
                    TypeOwner::World(_) | TypeOwner::None => None,
                };
                let owner = owner.as_deref().unwrap_or("?");
                let _ = write!(self.out, "resource {owner}.{}", definition.name.as_deref().unwrap_or("?"));
            }
            TypeDefKind::Handle(Handle::Own(of)) => self.around("own", &[Some(Type::Id(*of))]),
            TypeDefKind::Handle(Handle::Borrow(of)) => self.around("borrow", &[Some(Type::Id(*of))]),
            TypeDefKind::Tuple(tuple) => {
                let types: Vec<Option<Type>> = tuple.types.iter().copied().map(Some).collect();
                self.around("tuple", &types);
            }
            TypeDefKind::Option(of) => self.around("option", &[Some(*of)]),
            TypeDefKind::Result(result) => self.around("result", &[result.ok, result.err]),
            TypeDefKind::List(of) => self.around("list", &[Some(*of)]),
            TypeDefKind::Map(key, value) => self.around("map", &[Some(*key), Some(*value)]),
            TypeDefKind::FixedLengthList(of, length) => {
                self.around("list", &[Some(*of)]);
                let _ = write!(self.out, "[{length}]");
            }
            TypeDefKind::Future(of) => self.around("future", &[*of]),
            TypeDefKind::Stream(of) => self.around("stream", &[*of]),
            TypeDefKind::Type(of) => self.ty(of),
            TypeDefKind::Unknown => self.out.push_str("unknown"),
        }
    }

    fn around(&mut self, word: &str, types: &[Option<Type>]) {
        self.out.push_str(word);
        self.out.push('<');
        for (at, ty) in types.iter().enumerate() {
            if at > 0 {
                self.out.push_str(", ");
            }
            match ty {
                Some(ty) => self.ty(ty),
                None => self.out.push('_'),
            }
        }
        self.out.push('>');
    }

    fn list<'t>(&mut self, open: &str, items: impl Iterator<Item = (&'t str, Option<&'t Type>)>) {
        self.out.push_str(open);
        for (at, (name, ty)) in items.enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let _ = write!(self.out, "{comma}{name}");
            if let Some(ty) = ty {
                self.out.push_str(": ");
                self.ty(ty);
            }
        }
        self.out.push_str(" }");
    }

    fn cases<'t>(&mut self, items: impl Iterator<Item = (&'t str, Option<&'t Type>)>) {
        self.out.push_str("variant { ");
        for (at, (name, ty)) in items.enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let _ = write!(self.out, "{comma}{name}");
            if let Some(ty) = ty {
                self.out.push('(');
                self.ty(ty);
                self.out.push(')');
            }
        }
        self.out.push_str(" }");
    }
}
