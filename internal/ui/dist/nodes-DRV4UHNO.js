import{a,b}from"./chunk-SJ4O3MTW.js";import"./chunk-ACEDYJVQ.js";import"./chunk-546UUSDH.js";import"./chunk-IFSHVSFB.js";export{b as default,a as nodeState};
