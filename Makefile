# sluice. `make demo` shows it at work, `make test` runs everything; both do their own set-up.

SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: build demo test lint fuzz thorough soak generate bench notices reference site newcomer clean

build: ## the program, in bin/
	@go build -trimpath -o bin/sluice ./cmd/sluice

demo: build ## translate a few lines with the model in the repository
	@scripts/demo.sh

test: ## all tests and checks; says at the end what could not be run
	@scripts/test.sh

lint: ## the linters alone
	@scripts/lint.sh

fuzz: ## every fuzz target for a minute (FUZZTIME=5s for less)
	@scripts/fuzz.sh "$${FUZZTIME:-60s}"

thorough: ## what a run of the tests does for some cases only, for all: planted bugs, and sanitizers with kernels of bfloat16 (needs g++)
	@SLUICE_THOROUGH=1 go test -count=1 -timeout 60m -run 'Test(PlantedBugs|Modes)$$' ./gpukernels ./translator/gpumodel ./train/gpunetwork

soak: ## kill workers and brokers of streaming jobs for a quarter of an hour, and files two hundred times (needs Java and Maven)
	@SLUICE_SOAK=1 go test -count=1 -timeout 30m -run TestSoak -v ./cmd/sluice
	@SLUICE_KILLS=200 go test -count=1 -timeout 30m -run 'TestKill$$' -v ./cmd/sluice

generate: ## the assembly from its generators
	@go generate ./kernels/...

bench: build ## words a second on one core and on all, with a text of your own: make bench TEXT=corpus.en
	@bin/sluice bench -m models/ende-tiny -i "$(TEXT)" --cpu-threads 1
	@bin/sluice bench -m models/ende-tiny -i "$(TEXT)"

notices: ## THIRD_PARTY_NOTICES from the licences of what is built in
	@go run ./scripts/notices > THIRD_PARTY_NOTICES

newcomer: ## from a fresh clone to streams on a real Kafka, as somebody who has never seen the project (needs Java and Maven)
	@scripts/newcomer.sh

reference: ## docs/reference from the program: after a change of an option, a setting, a metric, a file format or a fuzz target
	@go run ./scripts/reference docs/reference

site: ## the documentation as pages, in bin/site
	@scripts/site.sh

clean:
	@rm -rf bin .cache
