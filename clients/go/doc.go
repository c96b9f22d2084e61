// Package peloton is the client of Peloton, a cluster scheduler.
//
// A [Client] has a stub for each public service, and makes calls that survive what the cluster survives: it
// finds the leader of each daemon, follows it when it changes, and repeats calls where that is safe, within one
// deadline. The methods of Client itself are a small layer for people: jobs from a typed spec or a YAML file,
// waiting, logs, and watches that go on after a cut.
//
//	client, err := peloton.New(peloton.Config{Caller: "my-team", ZooKeeper: "zk1:2181,zk2:2181"})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	answer, err := client.Jobs.Get(ctx, &job.GetRequest{Id: &apiv0.JobID{Value: id}})
//
// Failures are of type [*Error], and match ErrNotFound and its like with errors.Is. The v0 services tell known
// failures in their answers, which [Check] turns into errors.
//
// Goroutines may share a client.
package peloton
