module vink/wireguard

go 1.19

require (
	golang.org/x/crypto v0.11.0
	golang.org/x/net v0.12.0
	golang.org/x/sys v0.10.0
	golang.zx2c4.com/wireguard v0.0.0-20230223181233-21636207a675
)
