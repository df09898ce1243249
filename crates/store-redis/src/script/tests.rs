//! What is true of all scripts: they compile, name places instead of counting bytes, and leave room for more locals.

use windlass_store_testkit::servers::{RedisServer, RedisSettings};

use super::Script;
use crate::scripts;

/// Calls that take a place in a text.
const SPLICES: [&str; 5] = ["sub(", "byte(", "read(", "find(", "struct.unpack("];

/// The arguments of a call, whose text begins after the bracket.
fn arguments(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|c| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    });
    &text[..end.unwrap_or(text.len())]
}

/// Numbers that stand by themselves in arguments, not in quotes, in names or as an index of a list (ARGV, ids). 1 is
/// allowed: the beginning, or a neighbour.
fn bare_numbers(arguments: &str) -> Vec<&str> {
    let unquoted = arguments.split('\'').step_by(2);
    let unquoted: Vec<_> = unquoted
        .flat_map(|text| text.split('[').map(|text| text.split(']').next_back().unwrap_or_default()))
        .collect();
    let words =
        unquoted.iter().flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || "_.".contains(c))));
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()) && *word != "1").collect()
}

#[test]
fn scripts_name_places_and_count_no_bytes() {
    let mut found = Vec::new();
    for script in scripts::ALL {
        for part in script.parts {
            for line in part.lines().filter(|line| !line.trim_start().starts_with("--")) {
                let calls = SPLICES
                    .iter()
                    .flat_map(|call| line.match_indices(call).map(move |(at, _)| at + call.len()));
                if calls.into_iter().any(|at| !bare_numbers(arguments(&line[at..])).is_empty()) {
                    found.push(format!("{}: {}", script.name, line.trim()));
                }
            }
        }
    }
    found.dedup();
    assert!(found.is_empty(), "name these places in format.rs:\n{}", found.join("\n"));
}

#[test]
fn a_bare_number_is_found() {
    let found = |line: &str| bare_numbers(arguments(line)).len();
    assert_eq!(found("record, 24, 31)"), 2);
    assert_eq!(found("'>I8', record, at + 9) .. 7"), 1);
    assert_eq!(found("'>I8I8', record, RECORD.fence) + 8"), 0);
    assert_eq!(found("record, 1, FIRST.lease_end + 1)"), 0);
}

/// Locals that a script may have at its deepest place.
const LOCALS_MAX: usize = 100;

/// Puts locals before each line of a script that ends a block or returns, and at its end, where most are in scope, and has
/// the server compile it: more than 200 in one function are refused. ARGV: 1 the script, 2 how many. Answers the lines where
/// there are too many, and at how many places it compiled.
const FILL: &str = r"
local names = {}
for i = 1, ARGV[2] do names[i] = 'filled_' .. i end
local filling = 'local ' .. table.concat(names, ', ') .. '\n'
local lines, wrong, tried = {}, {}, 0
for line in string.gmatch(ARGV[1], '[^\n]+') do lines[#lines + 1] = line end
lines[#lines + 1] = ''
for i, line in ipairs(lines) do
  local word = string.match(line, '^%a*')
  if word == 'end' or word == 'else' or word == 'elseif' or word == 'return' or line == '' then
    lines[i] = filling .. line
    local compiled, why = loadstring(table.concat(lines, '\n'))
    if compiled then
      tried = tried + 1
    elseif string.find(why, 'local variables') then
      wrong[#wrong + 1] = line
    end
    lines[i] = line
  end
end
return { #wrong, tried, unpack(wrong) }";

fn filled(server: &RedisServer, script: &Script, locals: usize) -> (usize, usize) {
    let answer = server.command(&["EVAL", FILL, "0", script.text(), &locals.to_string()]);
    let numbers: Vec<usize> = answer.lines().take(2).map(|line| line.trim().parse().unwrap()).collect();
    (numbers[0], numbers[1])
}

#[test]
fn scripts_have_room_for_as_many_locals_again() {
    let server = RedisServer::start(&RedisSettings::default());
    for script in scripts::ALL {
        let (wrong, tried) = filled(&server, script, 200 - LOCALS_MAX);
        assert!(wrong == 0, "{} has more than {LOCALS_MAX} locals at {wrong} places", script.name);
        assert!(tried > 0, "{} was not compiled anywhere", script.name);
        // None has room for all that there may be: so the server counts.
        let has_locals = script.text().contains("local ");
        assert!(filled(&server, script, 200).0 > 0 || !has_locals, "{}", script.name);
    }
}
