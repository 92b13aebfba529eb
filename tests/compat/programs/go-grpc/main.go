// The service that all implementations of gRPC are tested with, and calls of all its kinds.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

func serve(address string) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterTestServiceServer(server, interop.NewTestServer())
	log.Fatal(server.Serve(listener))
}

func call(address string) {
	connection, err := grpc.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	client := pb.NewTestServiceClient(connection)
	// Each ends the program if an answer is not what it should be.
	tests := []struct {
		name string
		do   func(pb.TestServiceClient)
	}{
		{"empty", func(c pb.TestServiceClient) { interop.DoEmptyUnaryCall(c) }},
		{"large", func(c pb.TestServiceClient) { interop.DoLargeUnaryCall(c) }},
		{"client streams", func(c pb.TestServiceClient) { interop.DoClientStreaming(c) }},
		{"server streams", func(c pb.TestServiceClient) { interop.DoServerStreaming(c) }},
		{"ping-pong", func(c pb.TestServiceClient) { interop.DoPingPong(c) }},
		{"cancelled", func(c pb.TestServiceClient) { interop.DoCancelAfterFirstResponse(c) }},
		{"too late", func(c pb.TestServiceClient) { interop.DoTimeoutOnSleepingServer(c) }},
	}
	for _, test := range tests {
		var all sync.WaitGroup
		for i := 0; i < 20; i++ {
			all.Add(1)
			go func() { defer all.Done(); test.do(client) }()
		}
		all.Wait()
		fmt.Println(test.name)
	}
	for i := 0; i < 2000; i++ {
		if _, err := client.EmptyCall(context.Background(), &pb.Empty{}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("2000 one after the other")
}

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2])
	}
	call(os.Args[2])
}
