package table

import (
	"slices"
	"strings"
	"testing"
)

// Headers of data sets that people have.
func TestPairedEnds(t *testing.T) {
	for header, want := range map[string]string{
		"txId1,txId2":               "txId1 txId2", // Elliptic
		"node_1,node_2":             "node_1 node_2",
		"id_1,id_2":                 "id_1 id_2", // MUSAE
		"numeric_id_1,numeric_id_2": "numeric_id_1 numeric_id_2",
		"step,type,amount,nameOrig,oldbalanceOrg,newbalanceOrig,nameDest,oldbalanceDest,newbalanceDest,isFraud,isFlaggedFraud": "nameOrig nameDest", // PaySim: balances are paired, too
		"type,amount,nameOrig,nameDest,isFraud":                                         "nameOrig nameDest",
		"SOURCE_SUBREDDIT,TARGET_SUBREDDIT,POST_ID,TIMESTAMP,LINK_SENTIMENT,PROPERTIES": "SOURCE_SUBREDDIT TARGET_SUBREDDIT",
		"to_account,from_account,amount":                                                "from_account to_account",
		"SenderID,ReceiverID":                                                           "SenderID ReceiverID",
		"Source computer,Destination computer,bytes":                                    "Source computer Destination computer",
		"sourceIPAddress,destinationIPAddress":                                          "sourceIPAddress destinationIPAddress",
		"citing_doi,cited_doi":                                                          "citing_doi cited_doi",
		"follower,followee":                                                             "follower followee",
		"user_a,user_b":                                                                 "user_a user_b",
		"From Bank,From Account,To Bank,To Account":                                     "", // which of them?
		"f1,f2,f3":                  "",
		"f0,f1,f2":                  "",
		"1,2":                       "",
		"a,b":                       "",
		"account,amount":            "",
		"user_id,item_id,timestamp": "",
	} {
		names := strings.Split(header, ",")
		got := ""
		if src, dst, ok := pairedEnds(names); ok {
			got = names[src] + " " + names[dst]
		}
		if got != want {
			t.Errorf("%s: %q, expected %q", header, got, want)
		}
	}
}

func TestWords(t *testing.T) {
	for name, want := range map[string]string{"txId1": "tx id 1", "KundenNr": "kunden nr", "IPAddress": "ip address", " a_b ": "a b", "ID": "id", "": "", "österreichNr": "österreich nr"} {
		if got := Words(name); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q: %q", name, got)
		}
	}
	for name, want := range map[string]bool{"account_id": true, "txId": true, "KundenNr": true, "postcode": false, "amount": false, "id": true, "country code": true, "grid": false} {
		if IsID(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
