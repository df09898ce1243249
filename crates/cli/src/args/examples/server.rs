//! The tail of each `--help` of `serve`, `tokens` and `audit`.

pub(in crate::args) const SERVE: &str = "\
Examples:
  windlass serve
  windlass serve --listen 127.0.0.1:9000 --store postgres://app@localhost/shop
  curl http://127.0.0.1:8080/api/v1/queues
  windlass tokens create dashboard --role operator
  windlass serve --listen 0.0.0.0:8443 --host jobs.example.com --tls-cert chain.pem --tls-key key.pem
  WINDLASS_LISTEN=127.0.0.1:9000 windlass serve

The page /api describes every route. With --json: one line {\"url\": ..., \"auth\": ...} when it listens.";

pub(in crate::args) const TOKENS: &str = "\
Examples:
  windlass tokens create ada --role admin
  windlass tokens list
  windlass tokens revoke 0123456789abcdef";

pub(in crate::args) const CREATE: &str = "\
Examples:
  windlass tokens create ada --role admin
  windlass tokens create shop --role operator --queue mail --queue invoices --ttl 90d
  windlass tokens create grafana > token && chmod 600 token
  curl -H \"Authorization: Bearer $(cat token)\" http://127.0.0.1:8080/api/v1

The text of the token is all that is printed on standard output. With --json: one document with id and token.";

pub(in crate::args) const LIST: &str = "\
Examples:
  windlass tokens list
  windlass tokens list --json | jq -r '.tokens[] | select(.role == \"admin\") | .name'";

pub(in crate::args) const REVOKE: &str = "\
Examples:
  windlass tokens revoke 0123456789abcdef

Exit code 4 if there is none.";

pub(in crate::args) const AUDIT: &str = "\
Examples:
  windlass audit
  windlass audit --limit 1000 --json | jq '.entries[] | select(.actor == \"ada\")'

With --json: one document, {\"entries\": [...], \"next\": CURSOR or null}. Entries are kept for 90 days.";
