//! What decorators promise for the whole project: `TERNION_FALLBACK` knows every op by its name.

use ternion::decorators::known_names;
use ternion_testing::kinds::every_op;

#[test]
fn fallback_knows_the_name_of_every_op() {
    let known = known_names();
    for op in every_op().into_iter().filter(|op| !op.name.is_empty()) {
        assert!(known.iter().any(|name| name == op.name), "{op}");
    }
}
