import sys, json, time, warnings
sys.path[:0]=["/work/main","/work/main/tests"]
warnings.simplefilter("ignore")
import treefold
from test_wide_area import wide_area
out={}
def one(key, net, name, **o):
    t=time.process_time()
    try:
        p=treefold.plan(net,name,**o); r=[p.rate,p.num_trees,treefold.simulate(p,size_bytes=o.get("size_bytes",64<<20)).time_s]
    except treefold.TreefoldError as e: r=[str(e)]
    out[key]=[*r, time.process_time()-t]
for seed in range(60):
    net=wide_area(seed)
    for name in ("packing","mtree","blink"):
        for trees in (None,1,2,3): one(f"wa{seed} {name} {trees}",net,name,trees=trees)
        if name!="blink": one(f"wa{seed} {name} h4 2",net,name,trees=2,height=4); one(f"wa{seed} {name} lr",net,name,least_rate="2MB/s")
SP=["b4","b4:skew=0.5,seed=1","b4:skew=0.9,seed=1","b4:skew=0.7,seed=2","equinix-like","equinix-like:skew=0.5,seed=1","idn-like","idn-like:skew=0.5,seed=1","mesh:4x4","mesh:8x8","torus:4x4","torus:8x8","dgx2","fattree:4,2","bigraph:4x8","ring:8","line:5","cluster:nodes=4,gpus=8,rails=8"]
for s in SP:
    net=treefold.topology(s)
    for name in ("packing","mtree","blink"):
        for trees in (None,4,10): one(f"{s} {name} {trees}",net,name,trees=trees)
    for size in ("1KiB","64KiB","1MiB","1GiB"): one(f"{s} packing {size}",net,"packing",size_bytes=treefold.sizing.parse_size(size) if hasattr(treefold.sizing,"parse_size") else size)
for s in ["dgx2","dgx2:planes=6","fattree:4,2:reduces" ,"cluster:nodes=4,gpus=8,rails=8"]:
    for size in ("1KiB","1MiB","1GiB"):
        try: net=treefold.topology(s)
        except Exception as e: continue
        one(f"{s} innet {size}",net,"innet",size_bytes=size)
json.dump(out,open(sys.argv[1],"w"),indent=0)
print(sum(v[-1] for v in out.values()))
