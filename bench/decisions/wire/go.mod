module berth/bench/decisions/wire

go 1.26.0

require berth v0.0.0

require (
	github.com/hashicorp/go-msgpack/v2 v2.1.5
	github.com/vmihailenco/msgpack/v5 v5.4.1
)

require (
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/hashicorp/cronexpr v1.1.3 // indirect
	github.com/hashicorp/go-version v1.9.0 // indirect
	github.com/hashicorp/yamux v0.1.2 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
)

replace berth => ../../..
