import{a,b,c,d,e}from"./chunk-D7RQUIRW.js";import"./chunk-2H2WQXEQ.js";import"./chunk-5CUNVS37.js";export{e as Choice,d as default,c as jobState,b as squaresOf,a as sumOf};
