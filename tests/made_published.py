"""The BeaconKV paper's tables 1 to 4, as rows of the service's `published`."""

import csv
import io

TABLES = {
    "split": """recent_queries,beacon_queries,aime24_pct,time_s,source
32,0,51.3,4127.2,BKV Table 1
31,1,55.6,,BKV Table 1
16,16,64.6,4355.7,BKV Table 1
4,28,66.5,,BKV Table 1""",
    "aggregation": """kv_budget,max_pct,mean_pct,source
4096,55.4,52.5,BKV Table 2
2048,46.7,50.8,BKV Table 2
1024,39.2,36.7,BKV Table 2
512,30.0,27.5,BKV Table 2""",
    "initial_recent": """model,task,initial_recent_pct,beaconkv_pct,source
Qwen3-14B,AIME24,23.75,57.92,BKV Table 3
Qwen3-14B,GPQA-Diamond,60.23,61.11,BKV Table 3
R1-Distill-Llama-8B,AIME24,44.58,45.00,BKV Table 3
Qwen3-4B,MATH-500,55.95,79.75,BKV Table 3""",
    "system": "model,method,kv_budget,batch,peak_gpu_gb,tokens_per_s,"
    """decode_latency_s,livecodebench_pct,source
Qwen3-4B,full,,14,77.0,82.3,5573.4,54.4,BKV Table 4
Qwen3-4B,beaconkv,2048,14,13.3,356.4,1287.3,51.1,BKV Table 4
Qwen3-4B,rpc,2048,192,79.0,725.4,,44.8,BKV Table 4
Qwen3-4B,beaconkv,2048,192,79.3,704.8,,51.1,BKV Table 4""",
}


def rows() -> list[dict]:
    return [
        {"table": name, **row}
        for name, text in TABLES.items()
        for row in csv.DictReader(io.StringIO(text))
    ]
