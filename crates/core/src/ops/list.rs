//! Macros that declare the functions of an op. Each function is one entry, from which the enum, its
//! `ALL` and its properties are generated, so that no list can be incomplete.

/// Declares an enum of functions. `ALL` lists the variants in order, and each further column is a
/// method that returns the variant's string.
macro_rules! op_enum {
    (
        $(#[$meta:meta])*
        pub enum $enum:ident: $name:ident {
            $($(#[$doc:meta])* $variant:ident: $text:literal;)*
        }
    ) => {
        op_enum! { @enum $(#[$meta])* $enum { $($(#[$doc])* $variant)* } }

        impl $enum {
            /// Returns the name of the function.
            pub const fn $name(self) -> &'static str {
                match self { $($enum::$variant => $text,)* }
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub enum $enum:ident: $name:ident, $scalar_name:ident {
            $($(#[$doc:meta])* $variant:ident: $text:literal, $scalar_text:literal;)*
        }
    ) => {
        op_enum! {
            $(#[$meta])*
            pub enum $enum: $name { $($(#[$doc])* $variant: $text;)* }
        }

        impl $enum {
            /// Returns the name of the version whose second operand is a scalar.
            pub const fn $scalar_name(self) -> &'static str {
                match self { $($enum::$variant => $scalar_text,)* }
            }
        }
    };
    (@enum $(#[$meta:meta])* $enum:ident { $($(#[$doc:meta])* $variant:ident)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $enum { $($(#[$doc])* $variant,)* }

        impl $enum {
            /// Every variant, in the order of declaration.
            pub const ALL: [$enum; [$(stringify!($variant)),*].len()] = [$($enum::$variant),*];
        }
    };
}

/// Declares the unary elementwise functions. An entry is
///
/// ```text
/// /// Documentation of the variant and of the methods.
/// Variant { field: 0.1 } = "name" (method method_in_place) {
///     takes: Floats,                  // the accepted dtypes: a `Domain`
///     autocast: Unchanged,            // the behavior in a precision scope: an `Autocast`
///     value: |x| formula,             // in tensor ops; omitted if the function is a primitive
///     grad: FromInput |x, dy| formula,    // the saved tensor (a `Derivative`) and the formula
/// }
/// ```
///
/// The number next to a field is its value in [`UnaryOp::ALL`](super::UnaryOp::ALL). Formulas may
/// use the fields and `?`.
macro_rules! unary_ops {
    ($(
        $(#[$doc:meta])*
        $variant:ident $({ $($(#[$field_doc:meta])* $field:ident: $sample:literal),+ })?
        = $name:literal ($method:ident $in_place:ident) {
            takes: $domain:ident,
            autocast: $autocast:ident,
            $(value: |$x:ident| $value:expr,)?
            grad: $derivative:ident |$saved:ident, $dy:ident| $grad:expr $(,)?
        }
    )*) => {
        /// A unary elementwise function.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum UnaryOp {
            $($(#[$doc])* $variant $({ $($(#[$field_doc])* $field: f64),+ })?,)*
        }

        impl UnaryOp {
            /// Every function, in the order of declaration. Constants have an arbitrary valid
            /// value.
            pub const ALL: [UnaryOp; [$(stringify!($variant)),*].len()] =
                [$(UnaryOp::$variant $({ $($field: $sample),+ })?),*];

            const fn facts(self) -> Facts {
                match self {
                    $(UnaryOp::$variant $({ $($field: _),+ })? => Facts {
                        name: $name,
                        grad_name: concat!($name, "_grad"),
                        is_primitive: unary_ops!(@primitive $($x)?),
                        domain: Domain::$domain,
                        autocast: Autocast::$autocast,
                        derivative: Derivative::$derivative,
                    },)*
                }
            }

            /// Returns the constants of the function, in the order of its fields, padded with
            /// zeros.
            pub fn constants(self) -> [f64; 2] {
                match self {
                    $(UnaryOp::$variant $({ $($field),+ })? => pad_with_zeros(&[$($($field),+)?]),)*
                }
            }
        }

        /// Computes `f(x)` of a composite function.
        #[allow(unused_variables, reason = "not every formula uses the function's constants")]
        fn compose(op: UnaryOp, x: &Tensor) -> Result<Tensor> {
            match op {
                $(UnaryOp::$variant $({ $($field),+ })? => unary_ops!(@value op, x $(, $x, $value)?),)*
            }
        }

        /// Computes `f'(x) * dy`, where `saved` is y or x as [`UnaryOp::saves_output`] determines.
        ///
        /// Every intermediate value that depends on `saved` is finite where the result is, so that
        /// the formula can be differentiated again.
        #[allow(unused_variables, reason = "not every formula uses the function's constants")]
        fn gradient(op: UnaryOp, saved: &Tensor, dy: &Tensor) -> Result<Tensor> {
            match op {
                $(UnaryOp::$variant $({ $($field),+ })? => {
                    let ($saved, $dy) = (saved, dy);
                    $grad
                })*
            }
        }

        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// Returns an error if the function does not support the dtype (see [`UnaryOp`]),
                /// or if there is not enough memory.
                #[inline]
                pub fn $method(&self $($(, $field: f64)+)?) -> Result<Tensor> {
                    apply_one(Unary { op: UnaryOp::$variant $({ $($field),+ })? }, &[self])
                }

                #[doc = concat!("In place of this tensor: [`", stringify!($method), "`](Tensor::", stringify!($method), ").")]
                ///
                /// # Errors
                #[doc = concat!("As [`", stringify!($method), "`](Tensor::", stringify!($method), ") and [`apply_into`].")]
                #[inline]
                pub fn $in_place(&self $($(, $field: f64)+)?) -> Result<()> {
                    apply_into(Unary { op: UnaryOp::$variant $({ $($field),+ })? }, &[self], self)
                }
            )*
        }
    };
    (@primitive) => { true };
    (@primitive $x:ident) => { false };
    (@value $op:ident, $input:ident) => {
        Err(Error::Unsupported {
            op: $op.name(),
            device: "composition".into(),
            why: "it is a primitive".into(),
        })
    };
    (@value $op:ident, $input:ident, $x:ident, $value:expr) => {{
        let $x = $input;
        $value
    }};
}

#[cfg(test)]
mod tests {
    use crate::ops::binary::BinaryOp;
    use crate::ops::compare::CompareOp;
    use crate::ops::index::ScatterMode;
    use crate::ops::reduce::ReduceOp;
    use crate::ops::unary::UnaryOp;
    use std::collections::HashSet;

    #[test]
    fn every_function_has_a_name_of_its_own() {
        let names = [
            UnaryOp::ALL.map(UnaryOp::name).to_vec(),
            UnaryOp::ALL.map(UnaryOp::grad_name).to_vec(),
            BinaryOp::ALL.map(BinaryOp::name).to_vec(),
            BinaryOp::ALL.map(BinaryOp::scalar_name).to_vec(),
            CompareOp::ALL.map(CompareOp::name).to_vec(),
            CompareOp::ALL.map(CompareOp::scalar_name).to_vec(),
            ReduceOp::ALL.map(ReduceOp::name).to_vec(),
            ScatterMode::ALL.map(ScatterMode::name).to_vec(),
        ]
        .concat();
        let mut seen = HashSet::new();
        for name in &names {
            assert!(seen.insert(name), "{name} occurs twice");
        }
        assert!(names.len() > 90, "{} names", names.len());
    }

    #[test]
    fn constants_are_those_of_the_fields() {
        assert_eq!(UnaryOp::Exp.constants(), [0.0, 0.0]);
        assert_eq!(UnaryOp::Elu { alpha: 2.0 }.constants(), [2.0, 0.0]);
        assert_eq!(UnaryOp::Clamp { low: -1.0, high: 3.0 }.constants(), [-1.0, 3.0]);
    }
}
