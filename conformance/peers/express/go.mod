module github.com/saferetry/saferetry/conformance/peers/express

go 1.25.0

require github.com/saferetry/saferetry v0.0.0

require github.com/google/uuid v1.6.0 // indirect

replace github.com/saferetry/saferetry => ../../..
