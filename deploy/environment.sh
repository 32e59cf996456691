# Sourced: exports each line NAME=value of a file, whatever characters the value has. Usage: . environment.sh FILE
# `. FILE` would run the line as a command of the shell: DATABASE_URL=postgresql://host/db?a=b&c=d would end at the `&`.
# As systemd does with an EnvironmentFile: lines that begin with # are comments, and one pair of quotes is taken off.
if [ ! -r "$1" ]; then
  echo "$1 cannot be read: write the settings that the machines share into it (cluster.yaml names them)" >&2
  return 1
fi
while IFS= read -r line || [ -n "$line" ]; do
  case $line in
    [A-Za-z_]*=*) ;;
    *) continue ;;
  esac
  value=${line#*=}
  case $value in
    \"*\") value=${value#\"} value=${value%\"} ;;
    \'*\') value=${value#\'} value=${value%\'} ;;
  esac
  export "${line%%=*}=$value"
done <"$1"
unset line value
