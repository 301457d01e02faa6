import{d as p}from"./chunk-ZFQYI6BI.js";function r({place:o}){return p("p",{children:o.parts[1]})}export{r as default};
