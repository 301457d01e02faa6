import{a,b,c,d,e}from"./chunk-ACEDYJVQ.js";import"./chunk-546UUSDH.js";import"./chunk-IFSHVSFB.js";export{e as Choice,d as default,c as jobState,b as squaresOf,a as sumOf};
