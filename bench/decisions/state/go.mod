module berth/bench/decisions/state

go 1.26.0

require (
	berth v0.0.0
	github.com/google/btree v1.1.3
	github.com/hashicorp/go-memdb v1.3.5
	github.com/tidwall/btree v1.8.2
)

require (
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/hashicorp/go-immutable-radix v1.3.1 // indirect
	github.com/hashicorp/go-version v1.9.0 // indirect
	github.com/hashicorp/golang-lru v1.0.2 // indirect
)

replace berth => ../../..
