import sys, json
sys.path[:0]=["/work/main","/work/main/tests"]
import treefold, warnings
warnings.simplefilter("ignore")
from test_wide_area import wide_area
keys={k.split(" ")[0] for k in json.load(open("/tmp/base.json"))}
json.dump({k:(wide_area(int(k[2:])) if k.startswith("wa") else treefold.topology(k)).to_json() for k in keys}, open("/tmp/nets.json","w"))
